"""The page: an engine in a browser, to watch it and to steer it; and a run that was recorded, to watch it again.

`model` and `strip` make what it shows of the status and the window log, `access` says who may, `site` answers. What
runs in the browser is in `static`. `history` keeps the newest minutes, and `standalone` makes a file of a recording.
"""

__all__ = ["access", "history", "site", "standalone", "tokens"]
