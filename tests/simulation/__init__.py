"""A simulated world around the machine: a source with a log, tables, crashes, and oracles that judge the
history."""
