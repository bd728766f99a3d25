"""The plan of a table: which fields have a typed column, and its schema in Arrow and Spark."""

__all__ = ["column_names", "columns", "reshape", "schemas"]
