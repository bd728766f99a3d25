"""``snapshotter execute-snapshot --dry-run``: wait for the engine's answer, and show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshotter.cli.common import say
from snapshotter.cli.waiting import Answers, Awaited, looks
from snapshotter.errors import DefiniteError

if TYPE_CHECKING:
    from snapshotter.reporting.answers import CollectionEstimate, DryRun
    from snapshotter.state.storage import Storage

_UNITS = ("B", "kB", "MB", "GB", "TB")


def await_answer(state: Storage, answers: Answers, timeout: float | None, name: str) -> DryRun:
    """Wait until the engine has answered. ``name`` is what to call the dry run, ``answers`` tells its rejection;
    ``timeout`` in seconds, None waits for ever. Raises DefiniteError where it was rejected or failed, or time is up."""
    from snapshotter.reporting.answers import read_answer

    for status in looks(state, say, Awaited(name, "has no answer", "the dry run"), timeout):
        answer = read_answer(state, answers.signal_id)
        if answer is not None:
            if answer.error is not None:
                raise DefiniteError(f"{name} failed: {answer.error}")
            return answer
        answers.raise_rejection(status, name)
    raise AssertionError("it ends in one of these ways")


def forget_answer(state: Storage, signal_id: str) -> None:
    """Remove an answer that lies there already: it is to an earlier question."""
    from snapshotter.reporting.answers import answer_file

    state.delete(answer_file(signal_id))


def text_of(answer: DryRun) -> str:
    """The answer for a person: a line for each collection, and their sum."""
    lines = []
    for part in answer.collections:
        lines.append(f"{part.name}: {_amounts(part)}")
        if part.first is not None:
            lines.append(f"  ids {part.first} to {part.last}")
        lines += [f"  {note}" for note in part.notes]
    if len(answer.collections) > 1:
        lines.append(f"all: {_amounts(answer)}")
    if answer.rows_per_second is None:
        lines.append("seconds: not known, this engine has measured no speed yet")
    else:
        lines.append(f"at {answer.rows_per_second:,.0f} documents a second, the newest measured speed")
    lines.append("nothing was read")
    return "\n".join(lines)


def _amounts(part: CollectionEstimate | DryRun) -> str:
    documents = "documents not known" if part.documents is None else f"{part.documents:,} documents"
    amounts = [documents]
    if part.bytes is not None:
        amounts.append(f"about {_size(part.bytes)}")
    if part.seconds is not None:
        amounts.append(f"about {part.seconds:,.0f} s")
    return ", ".join(amounts)


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {_UNITS[-1]}"
