"""The file for what nobody at a terminal has asked for: what Spark, Java, Ivy and librdkafka say, the stacks of errors,
and every line of our own log.

There is one to a process, as there is one standard error. A command chooses it before anything writes; a program that
embeds an engine chooses none, and then all of this goes to standard error as before. It is made when it is first
needed, so a command that has nothing for it leaves nothing behind. Whoever may read it may see parts of documents (in
an error of Spark's, say), so it is its owner's alone.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from snapshotter.errors import ConfigurationError
from streaming.delta.table_paths import encode_name

__all__ = ["choose", "chosen", "default_place", "last_resort", "named", "opened", "tells", "write"]

LARGEST = 16 << 20
"""Bytes. A larger one is set aside at the next start, as one of the same name with ``.1`` behind it."""
_MODE = 0o600


class _Chosen:
    """What this process has chosen: the ``place``, where to go ``instead`` if that cannot be written to, and whether it
    was ``made``, and had something worth reading (``told``)."""

    place: Path | None = None
    instead: Path | None = None
    made = told = False


def choose(place: Path | None, instead: Path | None = None) -> None:
    """From here on this process's file is ``place`` (None: it has none), or ``instead`` where that cannot be written
    to. Nothing is made yet."""
    _Chosen.place, _Chosen.instead = place, instead
    _Chosen.made = _Chosen.told = False


def chosen() -> Path | None:
    """The file that was chosen, made or not."""
    return _Chosen.place


def default_place(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the file of the engine ``name`` lies if nobody says otherwise: where systemd keeps a service's logs
    (``LogsDirectory=``), else with the user's state, as the XDG specification has it."""
    if folder := environ.get("LOGS_DIRECTORY", "").split(":")[0]:
        return Path(folder, f"{encode_name(name)}.log")
    try:
        state = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:  # a user without a home
        return last_resort(name)
    return Path(state, "snapshotter", f"{encode_name(name)}.log")


def last_resort(name: str) -> Path:
    """A place for users without a home."""
    return Path(tempfile.gettempdir(), f"snapshotter-{os.getuid()}", f"{encode_name(name)}.log")


def opened() -> Path | None:
    """The file, made if need be; None where none was chosen. Raises ConfigurationError where it cannot be made."""
    if _Chosen.place is None or _Chosen.made:
        return _Chosen.place
    try:
        _make(_Chosen.place)
    except OSError as error:
        if _Chosen.instead is None:
            raise ConfigurationError(
                f"--log-file = {_Chosen.place}: {error.strerror or error}",
                "choose a file that can be written to",
            ) from error
        _Chosen.place, _Chosen.instead = _Chosen.instead, None
        _must_be_ours(_Chosen.place.parent)
        return opened()
    _Chosen.made = True
    return _Chosen.place


def tells() -> None:
    """What comes into the file from here on is worth reading after an error."""
    _Chosen.told = True


def named() -> Path | None:
    """The file, for an error to name: None where this process has put nothing there that would help."""
    return _Chosen.place if _Chosen.made and _Chosen.told else None


def write(text: str) -> bool:
    """Append ``text``, which is worth reading; False where there is no file to take it."""
    try:
        place = opened()
        if place is None:
            return False
        with place.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except (OSError, ConfigurationError):
        return False
    tells()
    return True


def _must_be_ours(folder: Path) -> None:
    """Make a folder among everybody's; one that somebody else has made there is refused."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigurationError(
            f"{folder} is not this user's alone", "remove it, or choose a file by --log-file"
        )


def _make(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if place.is_file() and place.stat().st_size > LARGEST:
        place.replace(place.with_name(f"{place.name}.1"))
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE))
