"""Signals by way of a folder of small files: for the command line, and for users who may only read their
MongoDB.

One signal is one file ``<id>.json`` in the folder, ``{"id", "type", "data", "sent_at_ms"}``, written whole
or not at all. The reader polls, carries a signal out, and only then acknowledges it, which deletes the
file: a crash in between means that the signal is seen again, and its id makes that harmless.

Files are reached through a port of four methods, so that the folder may lie wherever the engine's state does.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import quote, unquote

from signals.actions import Action, to_json
from signals.channels.channel import Received, received_document, signal_document
from signals.errors import DuplicateSignal, MalformedSignal, shown

NAME = "inbox"
FOLDER = "inbox"
_SUFFIX = ".json"


class SmallFiles(Protocol):
    """Small text files under one root; paths are relative to it, their parts joined by ``/``.

    Names that begin with a dot are never listed.
    """

    def read_text(self, path: str) -> str | None:
        """The whole text, or None where there is no such file."""

    def create_text(self, path: str, text: str) -> bool:
        """Make the file, whole or not at all, and say whether: False where there is one already."""

    def list_names(self, folder: str) -> Iterable[str]:
        """Names of the files directly in a folder; none where the folder does not exist."""

    def delete(self, path: str) -> None:
        """Remove the file; nothing happens where there is none."""


def file_name(signal_id: str) -> str:
    """The name of a signal's file: its id, percent-encoded where a file system would object."""
    name = quote(signal_id, safe="")
    return (f"%2E{name[1:]}" if name.startswith(".") else name) + _SUFFIX


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class InboxChannel:
    """The inbox in ``folder`` under the root of ``files``. Many may send; one engine polls.

    The files lie in the engine's own state, so errors of that storage pass through. ``now_ms`` (milliseconds since the
    epoch) stamps what is sent; `poll` orders signals by these stamps. Of what one channel sends no two have the same.
    """

    name = NAME

    def __init__(
        self, files: SmallFiles, folder: str = FOLDER, now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._files = files
        self._folder = folder
        self._now_ms = now_ms
        self._newest = 0
        self._stamping = threading.Lock()

    def send(self, action: Action) -> str:
        """Put the signal in the inbox and return its id. Raises DuplicateSignal where one of this id waits
        there.
        """
        content = json.loads(to_json(action)) | {"sent_at_ms": self._stamp()}
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        if not self._files.create_text(self._path(file_name(action.id)), text):
            raise DuplicateSignal(f"a signal with the id {action.id!r} waits already; give it another id")
        return action.id

    def _stamp(self) -> int:
        with self._stamping:
            self._newest = max(self._now_ms(), self._newest + 1)
            return self._newest

    def poll(self) -> list[Received]:
        """What waits, oldest first. A file stays until ``ack``; one that can't be read comes with its
        error.
        """
        names = [name for name in self._files.list_names(self._folder) if name.endswith(_SUFFIX)]
        received = [self._receive(name) for name in names]
        return sorted((r for r in received if r is not None), key=lambda r: (r.sent_at_ms, r.name))

    def ack(self, *names: str) -> None:
        """Forget signals that have been carried out, or whose errors have been reported."""
        for name in names:
            self._files.delete(self._path(name))

    def health(self) -> str | None:
        """There is nothing at the other end that could be down."""
        return None

    def close(self) -> None:
        """Nothing is held open."""

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _receive(self, name: str) -> Received | None:
        signal_id = unquote(name.removesuffix(_SUFFIX))
        what = f"inbox file {name!r}"
        try:
            text = self._files.read_text(self._path(name))
            if text is None:  # Acknowledged between the listing and this read.
                return None
            document = signal_document(text, what)
        except UnicodeDecodeError as error:
            reason = MalformedSignal(f"{what} is not UTF-8 ({error.reason}): {shown(error.object)}")
            return Received(NAME, name, signal_id, None, reason)
        except MalformedSignal as error:
            return Received(NAME, name, signal_id, None, error)
        sent_at = document.pop("sent_at_ms", 0)
        sent_at_ms = sent_at if isinstance(sent_at, int) else 0
        return received_document(NAME, name, document, default_id=signal_id, sent_at_ms=sent_at_ms)
