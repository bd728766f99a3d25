"""What is asked of the source besides the stream: the catalogue, bounds, watermarks, the READs of windows."""

__all__ = [
    "catalogue",
    "chunk_reader",
    "document_errors",
    "missing_keys",
    "name_checks",
    "oplog",
    "range_find",
    "ranges",
    "read_buffer",
    "request_lane",
    "stored_images",
    "watermarks",
]
