"""The error of a document or an event that cannot be processed, where ``event.processing.failure.handling.mode`` is
``fail``: named by its collection, its id and its position, so that somebody can look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from snapshotter.errors import DefiniteError
from streaming.decode.dead_letters import Where
from streaming.events.extended_json import id_text
from streaming.positions import ClusterTime

CONDITION = "unprocessable-document"


@dataclass(frozen=True, slots=True)
class Met:
    """``where`` it was met, in which collection (None: nobody can tell), of which document (its ``key``: BSON of a
    document that holds its id, or None), at which moment of the stream."""

    where: Where
    namespace: str | None
    key: bytes | None
    time: ClusterTime | None = None

    def __str__(self) -> str:
        what = {
            Where.STREAM: "an event",
            Where.LOOKUP: "the document that was looked up for an event",
            Where.READ: "a document that was read",
        }[self.where]
        at = f", position {self.time}" if self.time is not None else ""
        named = id_text(self.key) if self.key is not None else None
        return f"{self.namespace or 'an unknown collection'}: {what} (_id {named or 'not known'}{at})"


class DocumentError(DefiniteError):
    """A document, or an event, cannot be processed."""

    def __init__(self, why: str, met: Met, *, others: int = 0) -> None:
        """``why``, for people; ``met``: where, and which one. So many ``others`` besides."""
        more = f" ({others} more besides)" if others else ""
        super().__init__(f"{met} cannot be processed: {why}{more}", condition=CONDITION)


@dataclass(slots=True)
class DocumentFailures:
    """Whether a document that cannot be processed stops the engine (``fails``), and the error that does. ``wake`` asks
    for a batch, at which it stops: between two of them nothing is half done."""

    fails: bool = True
    wake: Callable[[], object] = lambda: None
    _error: DocumentError | None = None

    def stop_at(self, error: DocumentError) -> None:
        """Stop at the next batch, because of this ``error``."""
        self._error = error
        self.wake()

    def check(self) -> None:
        """Raises what was met."""
        if self._error is not None:
            raise self._error
