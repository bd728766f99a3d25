"""Fields that are left out, renamed or hashed: the rules as values, and how they are carried out."""

__all__ = ["document_rules", "rules", "server", "shape", "update_rules"]
