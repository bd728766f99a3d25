"""Signals of types that other packages bring: carried out in the background, for their functions may take long.

A signal's id is durable before its function is called: it is called once at most, also over a crash. One that waits
when the engine ends is not called; whoever sent it sees no outcome, and may send it again under another id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from signals.action_plugins import ActionNotFound, function_of, signal_of
from signals.actions import CustomAction
from snapshotter.errors import cause_of
from snapshotter.intake.background import BackgroundWorker

WAITING_MAX = 1_000
_log = structlog.get_logger("snapshotter.signals")


class CustomActions:
    """``submit`` from any thread."""

    def __init__(self) -> None:
        self._worker = BackgroundWorker("custom-actions", WAITING_MAX)

    def submit(
        self, action: CustomAction, engine: str, done: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        """Carry out the ``action`` in time. ``engine`` is the name of the one that the signal came to; the function is
        told it. One of ``done`` and ``failed`` is called, the latter with the reason: on the worker's thread, or at
        once where too many wait already; neither if the engine ends before."""
        if not self._worker.submit(partial(_carry_out, action, engine, done, failed)):
            failed(f"{WAITING_MAX} signals of other packages wait already; send it again under another id")


def _carry_out(
    action: CustomAction, engine: str, done: Callable[[], None], failed: Callable[[str], None]
) -> None:
    try:
        function_of(action.type)(signal_of(action, engine))
    except ActionNotFound as error:
        failed(str(error))
    except Exception as error:  # noqa: BLE001 - a stranger's code: it is reported to the sender, and affects nobody else
        why = f"{action.type} failed: {type(error).__name__}: {cause_of(error)}"
        _log.error("a signal of another package failed", id=action.id, error=why)
        failed(why)
    else:
        done()
