"""Judges of what requests say that they have found (O10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from snapshotter.core.values.outcome import Uncounted
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskState
from streaming.namespaces import Namespace

from .decisions import Violation
from .table_oracles import TableOracles

Task = tuple[str, Namespace]


class ReportOracles(TableOracles):
    """``differed``: how many rows the READs of each task have changed, in commits of batches that are over; ``open``:
    in those of the batch in hand."""

    def __init__(self) -> None:
        super().__init__()
        self.differed: Counter[Task] = Counter()
        self.open: Counter[Task] = Counter()

    def found(self, namespace: Namespace, said: Iterable[Uncounted]) -> None:
        """Right after a commit: what its READs have done, whether or not somebody lives to tell."""
        for one in said:
            outcome = one.outcome
            self.open[one.request_id, namespace] += outcome.kept - outcome.unchanged + outcome.deleted

    def disturbed(self, namespace: Namespace) -> None:
        """A commit that no progress knows may have gone with the table, or its collection is suspended before anybody
        asks."""
        super().disturbed(namespace)
        for task in [task for task in self.open if task[1] == namespace]:
            del self.open[task]

    def reports_tell(self, saved: Progress) -> None:
        """A batch is over: no report tells of less than what differed, however many lives it has taken."""
        self.differed += self.open
        self.open.clear()
        for request in saved.requests:
            for task in request.tasks:
                if task.state is TaskState.STOPPED:
                    continue  # a report that ends with the stop: what a crash has left uncounted is not asked for
                differed = self.differed[request.id, task.namespace]
                told = task.inserted + task.changed + task.deleted
                if told < differed or (told > differed and not self.world.scenario.disturbed):
                    raise Violation("O10", f"{request.id}: {differed} rows differed, told is {task}")
