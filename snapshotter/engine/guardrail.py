"""Whether more is captured than ``guardrail.collections.max`` allows: refused at a start, said while an engine runs.

The signal collection does not count: it has no table. The look at a start refuses, where
``guardrail.collections.limit.action`` is ``fail``; a collection that appears later stops nothing, for what streams
would be cut off, so it is said, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.errors import ConfigurationError
from streaming.namespaces import Namespace, listed

_log = structlog.get_logger("snapshotter.catalogue")
MAX = "guardrail.collections.max"


@dataclass(slots=True)
class Guardrail:
    """``config`` says what is captured, how much may be, and what else is done."""

    config: EngineConfig
    warnings: tuple[str, ...] = ()
    """Of the newest look."""

    def check(self, there: Iterable[Namespace]) -> None:
        """Raise ConfigurationError where too many of the collections ``there`` are captured, and that is to refuse."""
        if self.config.collections_fail and (excess := self._excess(there)):
            raise ConfigurationError(excess, f"capture fewer (collection.include.list), or raise {MAX}")

    def look(self, there: Iterable[Namespace]) -> None:
        """Say so where too many are captured, if that was not so before."""
        excess = self._excess(there)
        if excess and not self.warnings:
            _log.warning(excess)
        then = (
            "; the next start refuses (guardrail.collections.limit.action)"
            if self.config.collections_fail
            else ""
        )
        self.warnings = (excess + then,) if excess else ()

    def _excess(self, there: Iterable[Namespace]) -> str:
        """What there is too much of; empty where it is not."""
        most = self.config.collections_max
        captured = sorted(str(n) for n in there if self.config.captures_data(n)) if most else []
        if len(captured) <= most:
            return ""
        return f"{MAX} = {most}: {len(captured)} collections are captured: {listed(captured)}"
