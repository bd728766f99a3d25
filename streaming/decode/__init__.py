"""Raw documents walked many at a time by numpy: their keys, their fields, and a batch's events as rows of a layout."""

__all__ = ["buffer", "change_details", "dead_letters", "keys", "loads", "parts", "streamed_rows", "walk"]
