"""Progress for a person: a live display on a terminal, a line now and then where there is none.

A view is fed the engine's status and shows it; it keeps no state of the engine's. On a terminal one screen
(`reporting.status_screen`) is redrawn in place, as high as the terminal at most. Elsewhere (a log file, a
service) the same facts come as one line, at most every few seconds, and at once when a request begins or
ends. Until there is something to show, what is being done is said (`reporting.steps`).

    with open_view() as view:
        view.doing("starting Spark")
        view.update(status)
        view.message("signal sent")
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from snapshotter.reporting.progress_view import Screen, line, states_of
from snapshotter.reporting.status import EngineState, Status
from snapshotter.reporting.steps import SpokenSteps, Step
from snapshotter.reporting.unseen_keys import keys_unseen

LINE_SECONDS = 5.0


class View(Protocol):
    """Shows progress. Use as a context manager; ``update`` and ``doing`` only inside."""

    def update(self, status: Status) -> None:
        """Show the newest status."""

    def doing(self, what: str | None) -> None:
        """Show what is being done, and for how long, until something else is; None: nothing to wait for."""

    def message(self, text: str) -> None:
        """Say one line that stays, of what somebody may have to act upon."""

    def announce(self, text: str) -> None:
        """Say one line that stays, of how it goes."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_view(stream: TextIO | None = None) -> View:
    """The view that fits a stream (standard error by default): live on a terminal, lines elsewhere."""
    console = Console(file=stream or sys.stderr)
    return LiveView(console) if console.is_terminal else LineView(console)


class LiveView:
    """Redraws one screen in place. The last one stays when the view is left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._step: Step | None = None
        self._live = Live(console=console, refresh_per_second=4, transient=False, get_renderable=self._now)
        self._shown = ExitStack()

    def __enter__(self) -> Self:
        self._shown.enter_context(keys_unseen())
        self._shown.enter_context(self._live)
        return self

    def _now(self) -> RenderableType:
        """The status, unless nothing is known but that the engine starts, and what is being done."""
        status, step = self._status, self._step
        plain = status is None or (step and status.state is EngineState.STARTING and status.error is None)
        below = [Text(f"{step.text} …", style="dim")] if step else []
        shown = [] if status is None or plain else [Screen(status, len(below))]
        return Group(*shown, *below)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._step = None
        self._shown.close()

    def update(self, status: Status) -> None:
        self._status = status

    def doing(self, what: str | None) -> None:
        self._step = None if what is None else Step(what)
        self._live.refresh()

    def message(self, text: str) -> None:
        self._console.print(Text(text))

    announce = message


class LineView:
    """One line on ``console`` now and then: at most one in ``every_seconds``, and at once when the state of the engine
    or of a request changes. ``now`` gives seconds, from any origin."""

    def __init__(
        self, console: Console, every_seconds: float = LINE_SECONDS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._every = every_seconds
        self._now = now
        self._said_at: float | None = None
        self._said_states: object = None
        self._held_back: Status | None = None
        self._steps = SpokenSteps(lambda step: self._print(step.text))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.begin(None)
        if self._held_back is not None:
            self._say(self._held_back)

    def update(self, status: Status) -> None:
        if self._steps.busy and status.state is EngineState.STARTING and status.error is None:
            return  # the steps say more
        states = states_of(status)
        due = self._said_at is None or self._now() - self._said_at >= self._every
        self._held_back = status
        if due or states != self._said_states:
            self._said_states = states
            self._say(status)

    def doing(self, what: str | None) -> None:
        self._steps.begin(what)

    def message(self, text: str) -> None:
        self._print(text)

    announce = message

    def _say(self, status: Status) -> None:
        self._said_at = self._now()
        self._held_back = None
        self._print(line(status))

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class SilentView:
    """Shows nothing: for programs that embed an engine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def update(self, status: Status) -> None:
        """Nothing."""

    def doing(self, what: str | None) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""

    def announce(self, text: str) -> None:
        """Nothing."""
