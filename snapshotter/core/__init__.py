"""The rules, as plain values and functions: the machine, and the scheduler that it holds.

`values` are what comes in, what goes out and what is saved; `rules` decide. Nothing here reaches the world: no vendor
library, no clock, no randomness, no threads.
"""

__all__ = ["machine", "rules", "values"]
