"""The small files that earlier versions have left are read as they were meant; `test_earlier_states` opens the rest."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from snapshotter.core.values.tasks import TaskState
from snapshotter.reporting.status import Status
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import LocalStorage
from tests.support.earlier_states import DATA, NAME, ORDERS, PAUSED


@pytest.mark.parametrize("version", sorted(path.name for path in DATA.iterdir()))
def test_what_was_durable_is_known(version: str, tmp_path: Path) -> None:
    """Requests and how far they are, the paused one as paused, the commands that were applied, what status said."""
    for moment in ("idle", "middle"):
        with tarfile.open(DATA / version / f"{moment}.tar.gz") as packed:
            packed.extractall(tmp_path / moment, filter="data")
    idle, middle = (
        LocalStorage(tmp_path / moment / "warehouse" / "_snapshotter" / NAME) for moment in ("idle", "middle")
    )
    progress = ProgressStore(idle).newest()
    assert progress is not None
    states = {r.id: {t.state for t in r.tasks} for r in progress.requests}
    assert states == {
        "initial": {TaskState.DONE},
        "done-one": {TaskState.DONE},
        "stopped-one": {TaskState.STOPPED},
        PAUSED: {TaskState.RUNNING},
    }
    assert [r.id for r in progress.requests if r.paused] == [PAUSED]
    journal = Journal(idle)
    assert [request.id for request in journal.requests] == [PAUSED]
    assert journal.controls.paused == {PAUSED}
    assert all(journal.digest_of(name) for name in ("done-one", "stopped-one", PAUSED, "stop-it", "pause-it"))
    status = idle.read_text("status.json")
    assert status is not None
    assert {request.id for request in Status.from_json(status).requests} == set(states)
    loading = ProgressStore(middle).newest()
    assert loading is not None
    (task,) = (t for r in loading.requests for t in r.tasks if t.namespace.collection == ORDERS)
    assert 0 < task.chunks < 150
    assert task.frontier is not None
