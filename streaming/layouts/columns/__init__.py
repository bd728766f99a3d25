"""The layout of typed columns: which fields have one, documents as rows of them, and rows as documents again."""

__all__ = ["layout"]
