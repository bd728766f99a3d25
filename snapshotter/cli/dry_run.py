"""``snapshotter execute-snapshot --dry-run``: wait for the engine's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshotter.cli.common import say
from snapshotter.cli.waiting import Answers, Awaited, looks
from snapshotter.errors import DefiniteError

if TYPE_CHECKING:
    from snapshotter.reporting.answers import DryRun
    from snapshotter.state.storage import Storage


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
