"""From a signal as it was written to the action that it asks for: strict, within limits, and never code."""

__all__ = ["extended_json", "filters", "signal", "snapshot_actions", "values"]
