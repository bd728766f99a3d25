"""A shop that is written to while it is backfilled: `make demo`, and the sandbox to try the product on."""

__all__ = ["demo", "sandbox", "summary"]
