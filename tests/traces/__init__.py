"""Golden traces: what the machine says, line by line, in scenarios that a person can read."""
