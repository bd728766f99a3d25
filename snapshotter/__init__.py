"""snapshotter."""
