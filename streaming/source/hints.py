"""What an engine asks of the source between batches, through a small file.

Spark asks a Python source for its latest offset in a process of its own, so nothing else gets there. The
file is replaced as a whole: a reader sees the one or the other, never half of one. No file means no hints.

    {"nonce": 3, "density": {"events_per_second": 1500.0}, "wait_seconds": 4, "hold_seconds": 0,
     "known": ["shop.orders"]}
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from streaming.json_text import from_text, to_text
from streaming.namespaces import Namespace


@dataclass(frozen=True, slots=True)
class Hints:
    """``nonce``: another number than that of the last batch forces a batch although no time has passed.

    ``events_per_second``: captured events per second of cluster time in recent batches, or None.
    ``wait_seconds``: until the stream is so far ahead, a batch is not worth while; 0 for at once.
    ``hold_seconds``: until it is so far ahead the position stands still, whatever batches are asked for.
    ``known``: the collections that recent batches had most events of.
    """

    nonce: int = 0
    events_per_second: float | None = None
    wait_seconds: int = 0
    hold_seconds: int = 0
    known: tuple[Namespace, ...] = ()


def read_hints(path: str | None) -> Hints:
    """Raises ValueError that names the file and shows what is in it, if that is not hints."""
    if path is None:
        return Hints()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Hints()
    try:
        fields = from_text(text)
        rate = (fields.get("density") or {}).get("events_per_second")
        wait, hold = (int(fields.get(name, 0)) for name in ("wait_seconds", "hold_seconds"))
        known = tuple(map(Namespace.parse, fields.get("known", ())))
        return Hints(int(fields.get("nonce", 0)), None if rate is None else float(rate), wait, hold, known)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"hints.file={path!r} holds no hints: {text[:200]!r}") from error


def write_hints(path: str | Path, hints: Hints) -> None:
    """Replaces the file."""
    target = Path(path)
    draft = target.with_name(f"{target.name}.{os.getpid()}.new")
    fields: dict[str, object] = {"nonce": hints.nonce}
    if hints.events_per_second is not None:
        fields["density"] = {"events_per_second": hints.events_per_second}
    if hints.wait_seconds:
        fields["wait_seconds"] = hints.wait_seconds
    if hints.hold_seconds:
        fields["hold_seconds"] = hints.hold_seconds
    if hints.known:
        fields["known"] = [str(name) for name in hints.known]
    draft.write_text(to_text(fields), encoding="utf-8")
    draft.replace(target)
