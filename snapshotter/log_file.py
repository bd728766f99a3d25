"""The file for what nobody at a terminal has asked for: what Spark, Java, Ivy and librdkafka say, the stacks of errors,
and every line of our own log.

There is one to a process, as there is one standard error. A command chooses it before anything writes; a program that
embeds an engine chooses none, and then all of this goes to standard error as before. It is made when it is first
needed, so a command that has nothing for it leaves nothing behind. Whoever may read it may see parts of documents (in
an error of Spark's, say), so it is its owner's alone.

It stays small while its writers go on. Some of them, as a JVM, have it open for as long as they live, so it stays the
same file: what is in it is copied, and it is emptied. All of them append (``O_APPEND``), so each goes on at what is
then its end. What is written in between is lost.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import structlog

from snapshotter.errors import ConfigurationError, cause_of
from streaming.delta.table_paths import encode_name

__all__ = ["bound", "choose", "chosen", "default_place", "last_resort", "named", "opened", "tells", "write"]

LARGEST = 16 << 20
"""Bytes. The newest of a larger one are set aside, in one of the same name with ``.1`` behind it."""
LOOK_SECONDS = 1.0
_MODE = 0o600
_log = structlog.get_logger("snapshotter.log")


class _Chosen:
    """What this process has chosen: the ``place``, where to go ``instead`` if that cannot be written to, and whether it
    was ``made``, and had something worth reading (``told``). ``over`` ends the look at its size."""

    place: Path | None = None
    instead: Path | None = None
    made = told = False
    over = threading.Event()


def choose(place: Path | None, instead: Path | None = None) -> None:
    """From here on this process's file is ``place`` (None: it has none), or ``instead`` where that cannot be written
    to. Nothing is made yet."""
    _Chosen.place, _Chosen.instead = place, instead
    _Chosen.made = _Chosen.told = False
    _Chosen.over.set()


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
    _Chosen.made, _Chosen.over = True, threading.Event()
    watch = threading.Thread(
        target=_keep_small, args=(_Chosen.place, _Chosen.over), name="log-file", daemon=True
    )
    watch.start()
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


def bound(place: Path) -> None:
    """Where the file at ``place`` has more than `LARGEST` bytes, set so many of them aside, and empty it, whether they
    can be kept or not. Raises OSError where it cannot be emptied. Other processes may do the same at that moment."""
    if not stat.S_ISREG(place.stat().st_mode):
        return  # a terminal, or a pipe, keeps nothing
    with place.open("r+b") as file:
        if _size(file) <= LARGEST:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except OSError as error:  # a file system without locks: two that do it at once lose some of it
            _log.debug("the log file cannot be locked", error=cause_of(error))
        if (size := _size(file)) <= LARGEST:
            return
        why = _set_aside(file, size - LARGEST, place.with_name(f"{place.name}.1"))
        os.ftruncate(file.fileno(), 0)
    if why:
        _log.warning("older lines of the log file are lost", file=str(place), error=why)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _set_aside(file: BinaryIO, begin: int, place: Path) -> str:
    """Copy the whole lines behind ``begin``; why that failed, empty where it did not."""
    try:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "wb") as copy:
            file.seek(begin)
            file.readline(LARGEST)
            written = whole = 0
            for part in iter(lambda: file.read(min(1 << 20, begin + LARGEST - file.tell())), b""):
                whole = written + at + 1 if (at := part.rfind(b"\n")) >= 0 else whole
                written += copy.write(part)
            copy.truncate(whole)  # a line that is just being written may be seen in part
    except OSError as error:
        with suppress(OSError):
            place.unlink(missing_ok=True)  # of a full disk it would keep the room
        return cause_of(error)
    return ""


def _keep_small(place: Path, over: threading.Event) -> None:
    said = False
    while not over.wait(LOOK_SECONDS):
        try:
            bound(place)
        except FileNotFoundError:
            continue  # somebody has moved it away; our own lines make another one
        except OSError as error:
            if not said:
                _log.warning("the log file cannot be kept small", file=str(place), error=cause_of(error))
            said = True


def _make(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE))
    bound(place)
