"""Small durable files beside the checkpoint: progress, journal, lock.

One port, `Storage`, and an adapter for each place a checkpoint can lie: `LocalStorage` for a local folder,
`storage_hadoop.HadoopStorage` for whatever Spark's Hadoop file systems reach (S3, ABFS, HDFS),
`MemoryStorage` for tests. All pass one conformance suite. Names are relative to the location, with ``/``
between folders; folders come into being with the first file in them.

What every adapter promises:

- ``write_text`` replaces a file whole: a reader, or a restart after a crash, sees the old text or the new
  one;
- ``create_text`` makes a file only where there was none: of several callers at once, exactly one gets True;
- once a call has returned, its effect outlives a crash of the process (and, locally, of the machine).

A file name that begins with a dot is a temporary one: never listed, and safe to delete by hand.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from streaming.disk import sync
from streaming.json_text import from_text


class StorageError(Exception):
    """A file beside the checkpoint could not be read or written; the message names it and the reason."""


class Storage(Protocol):
    """The port. Every method raises `StorageError` when the place refuses or cannot be reached."""

    @property
    def location(self) -> str:
        """The folder or URI that names are relative to, for messages."""

    def read_text(self, name: str) -> str | None:
        """The file's text, or None when there is no such file."""

    def write_text(self, name: str, text: str) -> None:
        """Replace the file, or make it, in one step."""

    def create_text(self, name: str, text: str) -> bool:
        """Make the file; False, and nothing written, when it exists already."""

    def list_names(self, folder: str) -> list[str]:
        """The names of the files right in ``folder``, sorted; [] when there is no such folder."""

    def delete(self, name: str) -> None:
        """Delete the file; nothing happens when there is none."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""


def read_object(storage: Storage, name: str, format_: int) -> dict[str, Any] | None:
    """The JSON object in the file ``name`` of ``storage``, of the format ``format_``; None where there is no such file.
    Raises ValueError for a file of another format, or that holds no object."""
    text = storage.read_text(name)
    if text is None:
        return None
    value: dict[str, Any] | None = from_text(text)
    if not isinstance(value, dict) or value.get("format") != format_:
        raise ValueError(f"{storage.location}/{name} is not of format {format_}: {text[:200]}")
    return value


def checked_name(name: str) -> str:
    """The name itself; raises ValueError when it is empty, leaves the location, or would not be listed."""
    parts = name.split("/")
    if not all(parts) or any(part.startswith(".") for part in parts):
        raise ValueError(f"not the name of a file beside the checkpoint: {name!r}")
    return name


class LocalStorage:
    """Files in a local folder: written beside their place, synced, then moved there in one step."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = count()

    @property
    def location(self) -> str:
        return str(self._root)

    def read_text(self, name: str) -> str | None:
        with self._reported("read", name):
            try:
                return self._path(name).read_bytes().decode("utf-8")  # as text, line ends would change
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write_text(self, name: str, text: str) -> None:
        with self._reported("write", name):
            target = self._path(name)
            draft = self._draft(target, text)
            try:
                draft.replace(target)
            except OSError:
                draft.unlink(missing_ok=True)
                raise
            sync(target.parent)

    def create_text(self, name: str, text: str) -> bool:
        with self._reported("create", name):
            target = self._path(name)
            draft = self._draft(target, text)
            try:
                # A hard link is refused where the name is taken: exclusive, and the text is whole from the
                # start.
                os.link(draft, target)
            except FileExistsError:
                return False
            finally:
                draft.unlink(missing_ok=True)
            sync(target.parent)
            return True

    def list_names(self, folder: str) -> list[str]:
        with self._reported("list", folder):
            try:
                entries = list((self._root / folder).iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted(entry.name for entry in entries if entry.is_file() and entry.name[0] != ".")

    def delete(self, name: str) -> None:
        with self._reported("delete", name):
            target = self._path(name)
            try:
                target.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            sync(target.parent)

    def exists(self, name: str) -> bool:
        with self._reported("look for", name):
            return self._path(name).is_file()

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)

    def _draft(self, target: Path, text: str) -> Path:
        """A synced temporary file with the text, in the target's folder, under a name of this call's own."""
        target.parent.mkdir(parents=True, exist_ok=True)
        own = f"{os.getpid()}.{threading.get_ident()}.{next(self._numbers)}"
        draft = target.with_name(f".{target.name}.{own}.tmp")
        with draft.open("wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        return draft

    @contextmanager
    def _reported(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"cannot {what} {name!r} in {self.location}: {reason}") from error


class MemoryStorage:
    """Files in a dictionary, for tests; safe between threads, gone with the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._guard = threading.Lock()

    @property
    def location(self) -> str:
        return "memory"

    def read_text(self, name: str) -> str | None:
        return self._texts.get(checked_name(name))

    def write_text(self, name: str, text: str) -> None:
        with self._guard:
            self._texts[checked_name(name)] = text

    def create_text(self, name: str, text: str) -> bool:
        with self._guard:
            if checked_name(name) in self._texts:
                return False
            self._texts[name] = text
            return True

    def list_names(self, folder: str) -> list[str]:
        prefix = f"{folder.rstrip('/')}/" if folder.strip("/") else ""
        with self._guard:
            names = [name.removeprefix(prefix) for name in self._texts if name.startswith(prefix)]
        return sorted(name for name in names if "/" not in name)

    def delete(self, name: str) -> None:
        with self._guard:
            self._texts.pop(checked_name(name), None)

    def exists(self, name: str) -> bool:
        return checked_name(name) in self._texts
