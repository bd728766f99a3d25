"""Benchmarks: our own cases (`test_*.py`), reference figures, and the same work done by peers. See
README.md."""
