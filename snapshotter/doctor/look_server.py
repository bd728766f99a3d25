"""What a MongoDB says of itself: its clock, and its version."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC
from typing import Any

from pymongo import MongoClient

from snapshotter.doctor.facts import Clock


def clock(client: MongoClient[Any], now: Callable[[], float] = time.time) -> Clock:
    """How far this machine's clock (``now``) is ahead of the server's: the middle of the question's way and back is
    taken for the moment at which the server looked at its own."""
    asked = now()
    answer = client.admin.command("hello")
    answered = now()
    theirs = answer["localTime"].replace(tzinfo=UTC).timestamp()
    return Clock((asked + answered) / 2 - theirs, (answered - asked) / 2)


def version(client: MongoClient[Any]) -> str:
    """As the server says it."""
    return str(client.server_info()["version"])
