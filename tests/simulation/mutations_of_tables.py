"""Rule-breaking changes, continued: tables that others alter, take or remove, a state that is lost, collections that
join late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapshotter.core.scheduler import Scheduler
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.effects import ReadChunk
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Wanted
from snapshotter.core.values.suspension import Suspension
from snapshotter.engine.first_load import FirstLoad
from streaming.delta.table_identity import TableMark

from . import process
from .mutations import MUTATIONS, mutation
from .process import Process
from .world import World

__all__ = ["MUTATIONS"]

_OFTEN: dict[str, Any] = {
    "altered": 0.05,
    "removed": 0.02,
    "stolen": 0.0,
    "writes": 0.4,
    "missing": 0.0,
    "lost": 0.0,
}


@mutation("suspended", **_OFTEN)
def tables_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Process, "look", lambda self, namespace, mark: None)


@mutation("suspended", **_OFTEN, optimized=0.3)
def only_the_newest_commit_is_looked_at(patch: pytest.MonkeyPatch) -> None:
    """What lies before it goes unseen."""
    original = Process.look

    def look(self: Process, namespace: Any, mark: TableMark | None) -> str | None:
        newest = self.world.tables[namespace].mark()
        close = (
            mark
            if mark is None or newest is None
            else replace(mark, version=max(mark.version, newest.version - 1), commit="")
        )
        return original(self, namespace, close)

    patch.setattr(Process, "look", look)


@mutation("suspended", **{**_OFTEN, "altered": 0.0, "removed": 0.0, "put_back": 0.05})
def what_is_kept_of_a_table_is_of_before_its_landing(patch: pytest.MonkeyPatch) -> None:
    """A copy without the newest landing is taken for the table."""
    patch.setattr(Process, "mark_after", lambda self, namespace, before: before)


@mutation("suspended", **{**_OFTEN, "altered": 0.0, "stolen": 0.05, "removed": 0.0})
def the_owner_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    original = Process.look
    patch.setattr(
        Process,
        "look",
        lambda self, namespace, mark: (
            found if (found := original(self, namespace, mark)) != "owned" else None
        ),
    )


@mutation("suspended", **_OFTEN, crash=0.05)
def a_suspension_is_not_saved(patch: pytest.MonkeyPatch) -> None:
    original = Progress.to_json
    patch.setattr(Progress, "to_json", lambda self: {**original(self), "suspended": {}})


@mutation("suspended", **_OFTEN, repairs=False)
def a_plain_read_restores(patch: pytest.MonkeyPatch) -> None:
    """Rows of documents that are gone stay."""
    patch.setattr(World, "heal", _heal_plainly)
    patch.setattr(
        Suspension, "restores", lambda self, request_id, task: self.restored_by in (None, request_id)
    )


def _heal_plainly(world: World) -> None:
    machine = world.machine
    for namespace, suspension in machine.progress.suspended.items() if machine is not None else ():
        if not suspension.lands and not any(r.task(namespace) and not r.ended for r in world.known()):
            world.ask((Wanted(namespace),))


@mutation("suspended", **_OFTEN, stops=0.03, heal=0.2)
def a_restoring_read_that_was_stopped_has_restored(patch: pytest.MonkeyPatch) -> None:
    original = Progress.restored

    def restored(self: Progress) -> Progress:
        now = original(self)
        again = now.left_out - self.left_out
        return replace(now, suspended={n: s for n, s in now.suspended.items() if n not in again})

    patch.setattr(Progress, "restored", restored)


@mutation("suspended", **_OFTEN)
def what_is_suspended_lands_with_its_batch(patch: pytest.MonkeyPatch) -> None:
    """The windows of the collection close all the same."""
    patch.setattr(Process, "lands", staticmethod(lambda namespace, landing, events: True))


@mutation("suspended", **_OFTEN)
def windows_stay_in_a_suspended_collection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "rest", lambda self, namespace: [])


@mutation("suspended", lost=1.0, restart=0.02, crash=0.02, preloaded=0.9, writes=0.4)
def a_first_load_over_rows_does_not_reconcile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "first_load", lambda self: tuple(map(Wanted, self.tables)))


_JOINING: dict[str, Any] = {"late": 0.7, "restart": 0.02, "preloaded": 0.9, "writes": 0.4, "lost": 0.0}


@mutation("late", **_JOINING)
def a_collection_that_joins_late_is_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FirstLoad, "_newly_read", lambda self, before, progress, found: [])


@mutation("late", **_JOINING)
def a_mark_outlives_the_capture(patch: pytest.MonkeyPatch) -> None:
    """A collection that was left out for a while is not read again."""
    patch.setattr(Coverage, "within", lambda self, captures: self)


@mutation("late", **_JOINING)
def rows_of_a_collection_that_was_left_out_are_believed(patch: pytest.MonkeyPatch) -> None:
    """It is read, but not with reconcile."""
    patch.setattr(FirstLoad, "_wanted", lambda self, namespace, unbelieved, rewritten: Wanted(namespace))


@mutation("14", filtered=0.9, requests=5, preloaded=0.9, writes=0.2)
def absence_from_a_filtered_read_is_taken_for_a_proof(patch: pytest.MonkeyPatch) -> None:
    """The documents of rows are not read, so these are deleted."""
    original = ReadChunk.of
    patch.setattr(ReadChunk, "of", lambda *given, **more: replace(original(*given, **more), rows_too=False))


@mutation("14", filtered=0.9, requests=5, preloaded=0.9, writes=0.5, collation=0.0)
def a_row_that_came_after_the_rows_were_looked_at_is_missing(patch: pytest.MonkeyPatch) -> None:
    """By an event of before the low watermark: it was not looked for, so that it was not read says nothing."""
    original = process.Reconciling

    def reconciling(*given: Any, rows_too: bool) -> Any:
        del rows_too
        return original(*given)

    patch.setattr(process, "Reconciling", reconciling)
