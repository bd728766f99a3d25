"""`make demo`: a shop that is written to while it is backfilled."""
