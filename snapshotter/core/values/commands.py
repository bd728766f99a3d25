"""Commands of operators about requests: stop, pause, resume.

A command is about the requests that exist when it is carried out (`core.rules.signal_batch`). What it decides about
them is kept as facts (`core.values.controls`), and only these reach the machine.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from streaming.namespaces import Namespace


@dataclass(frozen=True, slots=True)
class Stop:
    """End these collections of these requests (None: all that exist now and have not ended). ``digest`` stands for what
    the command said, here and below; an id that was taken before changes nothing."""

    id: str
    requests: frozenset[str] | None = None
    namespaces: frozenset[Namespace] | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Open no more windows for these requests (None: all that exist now and have not ended)."""

    id: str
    requests: frozenset[str] | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with these requests (None: all that are paused). One that is named goes on where it failed, too."""

    id: str
    requests: frozenset[str] | None = None
    digest: str = ""


Command = Stop | Pause | Resume
