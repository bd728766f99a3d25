"""The rules, as plain values and functions: windows, chunks, requests, progress, and the machine that keeps them."""
