"""What is captured: include and exclude lists, as a server-side ``$match`` and as a predicate. Pure."""

__all__ = ["list_entries", "scope"]
