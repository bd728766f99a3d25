"""Windows on real parts: one contract, and the same tests for the three watermark strategies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.values.chunks import KeyRange
from tests.support.engines import SECONDS, STRATEGIES, Lab, Reads, lab, limits, reads
from tests.support.ids import fill_with_twenty
from tests.support.selection import rest_thorough

__all__ = ["lab", "reads"]


@pytest.mark.parametrize("strategy", rest_thorough(STRATEGIES, ["insert_insert"]))
def test_twenty_ids_in_chunks_of_one_two_and_three(lab: Lab, strategy: str) -> None:
    """Twenty ids of sixteen BSON types are backfilled whole, whatever the size of the chunks; then once more, over the
    rows that are there."""
    lab.with_options(strategy, snapshot__mode="no_data")
    sizes = (1, 2, 3)
    for size in sizes:
        fill_with_twenty(lab.collection(f"of_{size}"))
    with lab.running() as engine:
        run = engine.engine.run_state
        assert run is not None
        for size in (*sizes, 2):
            run.machine.scheduler.limits = replace(run.machine.limits, chunk_docs=size)
            request = engine.wait(engine.execute_snapshot(lab.name(f"of_{size}")), SECONDS)
            (task,) = request.tasks
            assert (task.error, task.rows, task.superseded) == (None, 20, 0)
            assert task.chunks == -(-20 // size)
        engine.until("a clean signal collection", lambda: lab.signals.count_documents({}) == 0, SECONDS)
    lab.assert_equal(*(f"of_{size}" for size in sizes))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_streams_in_a_window_beats_what_it_read(lab: Lab, reads: Reads, strategy: str) -> None:
    """Changes between the low and the high watermark supersede the READs, before and after the cursor alike; what is
    deleted does not come back."""
    lab.with_options(strategy, snapshot__mode="no_data")
    things = lab.collection("things")
    things.insert_many([{"_id": n, "v": 0} for n in range(20)])

    def before(number: int, job: object) -> None:
        things.update_one({"_id": 1}, {"$set": {"v": "before the read"}})
        things.delete_one({"_id": 2})

    def after(number: int, job: object, buffer: object) -> None:
        things.update_one({"_id": 3}, {"$set": {"v": "after the read"}})
        things.replace_one({"_id": 4}, {"w": "replaced"})
        things.delete_one({"_id": 5})
        things.delete_one({"_id": 6})
        things.insert_one({"_id": 6, "v": "made again"})
        things.insert_one({"_id": 100, "v": "new"})

    reads.before, reads.after = before, after
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(lab.name("things")), SECONDS)
        (task,) = request.tasks
        assert (task.rows, task.superseded) == (14, 5)
        engine.catch_up(SECONDS)
    lab.assert_equal("things")
    lab.assert_one_commit_a_batch("things")


@pytest.mark.parametrize("strategy", rest_thorough(STRATEGIES[:2], ["insert_insert"]))
def test_an_open_document_deleted_early_invalidates_the_window(lab: Lab, reads: Reads, strategy: str) -> None:
    """A TTL index, or a person, deletes the open document while the chunk is read: it is read again, and the request
    ends well."""
    lab.with_options(strategy, snapshot__mode="no_data")
    things = lab.collection("things")
    things.insert_many([{"_id": n, "v": 0} for n in range(10)])

    def after(number: int, job: object, buffer: object) -> None:
        if number == 0:
            assert lab.signals.delete_many({"_id": {"$regex": "-open$"}}).deleted_count == 1
            things.update_one({"_id": 3}, {"$set": {"v": 1}})

    reads.after = after
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(lab.name("things")), SECONDS)
        assert request.tasks[0].error is None
        assert len(reads.jobs) == 2
        engine.catch_up(SECONDS)
    lab.assert_equal("things")


@pytest.mark.parametrize("strategy", rest_thorough(STRATEGIES[:2], ["insert_insert"]))
def test_a_watermark_that_is_filtered_out_fails_the_request(lab: Lab, strategy: str) -> None:
    """The stream passes an acknowledged watermark without showing it: the request fails and names the options; the
    stream itself goes on."""

    def hidden(config: EngineConfig) -> EngineConfig:
        options: dict[str, Any] = dict(config.source_options)
        del options["signal.data.collection"]
        return replace(config, source_options=options)

    lab.with_options(strategy, snapshot__mode="no_data", collection__include__list=rf"{lab.database}\.things")
    lab.tune = hidden
    things = lab.collection("things")
    things.insert_many([{"_id": n} for n in range(5)])
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(lab.name("things")), SECONDS)
        error = request.tasks[0].error
        assert error is not None
        assert "signal.data.collection" in error
        assert "low watermark was acknowledged" in error
        things.insert_one({"_id": 9})
        engine.catch_up(SECONDS)
    assert lab.table("things").exists()


@pytest.mark.parametrize("strategy", rest_thorough(STRATEGIES, ["insert_insert", "cluster_time"]))
def test_several_windows_in_flight_share_commits(lab: Lab, reads: Reads, strategy: str) -> None:
    """Many small windows: each chunk is read once, none twice, and far fewer commits than windows land them. All are
    listed afterwards."""
    lab.with_options(strategy, snapshot__mode="no_data")
    lab.tune = limits(chunk_docs=10, windows=8, commit_rows_target=1_000)
    things = lab.collection("things")
    things.insert_many([{"_id": n, "v": "x" * (n % 7)} for n in range(200)])
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(lab.name("things")), SECONDS)
        assert (request.tasks[0].rows, request.tasks[0].chunks) == (200, 20)
        landed = engine.windows(request.id)
        assert engine.table_path(lab.name("things")) == str(lab.table("things"))
    assert (len(landed), sum(w.rows for w in landed), landed[-1].upto) == (20, 200, "199")
    assert all(w.low_at <= w.read_at <= w.high_at <= w.landed_at for w in landed)
    targets = reads.targets()
    assert all(isinstance(target, KeyRange) for target in targets)
    assert len(targets) == len(set(targets)) == 20
    assert len(lab.commits("things")) < 20
    lab.assert_equal("things")


@pytest.mark.parametrize(("least", "files"), [(5, True), (6, False)])
def test_small_chunks_are_rows_until_they_land(lab: Lab, reads: Reads, least: int, files: bool) -> None:
    """Others are files of their table when they are read. What did not land as a file is gone afterwards."""
    lab.with_options(
        snapshot__mode="no_data",
        incremental__snapshot__chunk__size=5,
        engine__read__files__min__documents=least,
    )
    lab.collection("orders").insert_many([{"_id": n, "n": n} for n in range(12)])
    with lab.running() as engine:
        for _ in range(2):  # the second is held against what is there
            assert not engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).failed
    assert {job.folder is not None for job in reads.jobs} == {files}
    lab.assert_equal("orders")
    folder = lab.table("orders")
    found = {path.name for path in folder.glob("reads-*")}
    assert (len(found) == 3) == files, found
