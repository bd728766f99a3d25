"""A look at something at the start, and again every so many seconds on a thread of its own, for as long as an engine
lives."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class RecurringLook(ABC):
    """As a context manager it looks once, and raises what that does; then it looks ``every`` so many seconds, until the
    context is left. ``name`` is the thread's."""

    def __init__(self, name: str, every: float) -> None:
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    @abstractmethod
    def _look(self) -> None:
        """One look."""

    def _look_again(self) -> bool:
        """A look on the thread; whether others follow. It raises nothing."""
        self._look()
        return True

    def _look_on(self) -> None:
        while not self._stopped.wait(self._every) and self._look_again():
            pass
