"""Signals from a notebook or a script: ask, control, wait, and see what became of earlier requests."""

__all__ = ["client"]
