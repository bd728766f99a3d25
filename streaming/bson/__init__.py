"""Raw BSON: where the values of a document lie, without decoding them."""

__all__ = ["elements", "raw_fields"]
