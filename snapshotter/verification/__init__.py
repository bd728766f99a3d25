"""Collection and table compared at one moment, by two decoders that share nothing."""

__all__ = ["comparison", "small_table", "verify"]
