"""Which collections a signal means: its patterns, held against the names that exist. Pure but for RE2."""

__all__ = ["patterns", "selection"]
