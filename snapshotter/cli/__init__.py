"""The command line ``snapshotter``.

Each command is a file; what they share is ``common``. Spark, MongoDB's driver and the engine are imported
by the commands that need them, when they run, so that ``--help`` answers at once.

Exit codes: 0 done, 1 different (``verify``) or warnings (``doctor``), 2 configuration or usage, 3 a failure that a
restart cannot cure, 4 gave up retrying, 130 interrupted.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the installed command."""
    from snapshotter.cli.app import app

    try:
        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
