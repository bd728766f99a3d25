"""A batch on its way into the tables: what it read, what it closes, and the commits of each table."""
