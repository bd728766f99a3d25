"""Collections that are suspended, or soon will be: what an end says of them, and whose table it is that ends runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from snapshotter.core.values.progress import Progress
from snapshotter.errors import DefiniteError
from streaming.namespaces import Namespace

_AFTER = 2


@dataclass(slots=True)
class Suspects:
    """Collections whose table alone has ended runs, one after the other. After ``_AFTER`` of them the fault is that
    table's own, and the next run suspends the collection instead of ending."""

    _runs: Counter[Namespace] = field(default_factory=Counter)

    def note(self, failing: Namespace | None, *, steady: bool) -> None:
        """Note that a run has ended with an error that only the table of ``failing`` had (None: no single table had
        it). ``steady``: the run had gone well before, so runs are counted anew."""
        if steady:
            self._runs.clear()
        if failing is not None:
            self._runs[failing] += 1

    @property
    def found(self) -> frozenset[Namespace]:
        return frozenset(namespace for namespace, runs in self._runs.items() if runs >= _AFTER)


def refuse_suspended(progress: Progress) -> None:
    """Raise DefiniteError if collections are suspended: ``--once`` has then done what it can, and not all."""
    suspended = sorted(progress.suspended.items())
    if suspended:
        why = [f"  - {namespace}: {suspension.error}" for namespace, suspension in suspended]
        steps = dict.fromkeys(suspension.next_step for _, suspension in suspended)
        said = "\n".join(["suspended, so nothing lands of:", *why])
        raise DefiniteError(said, "; ".join(steps), condition="table-unusable")
