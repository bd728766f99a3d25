"""Documents of a window, read on the executors: its bounds, its two watermarks, its READs."""
