"""One file for each module of `snapshotter.core`."""
