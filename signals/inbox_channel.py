"""Signals by way of a folder of small files: for the command line, and for users who may only read their
MongoDB.

One signal is one file ``<id>.json`` in the folder, ``{"id", "type", "data", "sent_at_ms"}``, written whole
or not at all. The reader polls, carries a signal out, and only then acknowledges it, which deletes the
file: a crash in between means that the signal is seen again, and its id makes that harmless.

Files are reached through a port of four methods, so that the folder may lie wherever the engine's state does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote

from signals.actions import Action, to_json
from signals.errors import DuplicateSignal, MalformedSignal, SignalError, shown
from signals.parsing import parse_signal_document

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


@dataclass(frozen=True, slots=True)
class Received:
    """A signal found in the inbox. Either ``action`` is there or ``error`` says what is wrong with the file.

    ``name`` is what ``ack`` takes. ``sent_at_ms`` is milliseconds since the epoch by the sender's clock.
    """

    name: str
    id: str
    action: Action | None
    error: SignalError | None = None
    sent_at_ms: int = 0


def file_name(signal_id: str) -> str:
    """The name of a signal's file: its id, percent-encoded where a file system would object."""
    name = quote(signal_id, safe="")
    return (f"%2E{name[1:]}" if name.startswith(".") else name) + _SUFFIX


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class InboxChannel:
    """The inbox under the root of ``files``. Many may send; one engine polls."""

    def __init__(
        self, files: SmallFiles, folder: str = FOLDER, now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._files = files
        self._folder = folder
        self._now_ms = now_ms

    def send(self, action: Action) -> str:
        """Put the signal in the inbox and return its id. Raises DuplicateSignal where one of this id waits
        there.
        """
        content = json.loads(to_json(action)) | {"sent_at_ms": self._now_ms()}
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        if not self._files.create_text(self._path(file_name(action.id)), text):
            raise DuplicateSignal(f"a signal with the id {action.id!r} waits already; give it another id")
        return action.id

    def poll(self) -> list[Received]:
        """What waits, oldest first. A file stays until ``ack``; one that can't be read comes with its
        error.
        """
        names = [name for name in self._files.list_names(self._folder) if name.endswith(_SUFFIX)]
        received = [self._receive(name) for name in names]
        return sorted((r for r in received if r is not None), key=lambda r: (r.sent_at_ms, r.name))

    def ack(self, name: str) -> None:
        """Forget a signal that has been carried out, or whose error has been reported. ``name`` as
        received.
        """
        self._files.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _receive(self, name: str) -> Received | None:
        text = self._files.read_text(self._path(name))
        if text is None:  # Acknowledged between the listing and this read.
            return None
        signal_id = unquote(name.removesuffix(_SUFFIX))
        try:
            return _parse(name, signal_id, text)
        except SignalError as error:
            return Received(name, signal_id, None, error)


def _parse(name: str, signal_id: str, text: str) -> Received:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise MalformedSignal(f"inbox file {name!r} is not JSON ({error}): {shown(text)}") from error
    if not isinstance(content, dict):
        raise MalformedSignal(f"inbox file {name!r} must hold a JSON object, got {shown(content)}")
    sent_at = content.pop("sent_at_ms", 0)
    content.setdefault("id", signal_id)
    action = parse_signal_document(content)
    return Received(name, action.id, action, None, sent_at if isinstance(sent_at, int) else 0)
