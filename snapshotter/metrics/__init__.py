"""An engine's figures: what each of them is, what is counted for them, and the endpoint that shows them.

`catalogue` lists them, one line each, and makes the one value that `status.json` and Prometheus are given.
"""

__all__ = ["catalogue", "endpoint", "figures", "tally"]
