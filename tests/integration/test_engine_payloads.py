"""What a signal's payload says, on a real engine: single ids, ranges, urgency, dry runs, and code in filters."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from signals.client.client import SnapshotClient
from signals.errors import CodeInFilter, SignalError
from snapshotter.api import Snapshotter
from snapshotter.core.values.chunks import KeyList
from snapshotter.core.values.tasks import TaskState
from snapshotter.reporting.answers import read_answer
from snapshotter.reporting.status import RequestState, Status
from tests.support.engines import SECONDS, Lab, Reads, lab, reads

__all__ = ["lab", "reads"]

OID = ObjectId("65a1b2c3d4e5f60718293a4b")


def prepared(lab: Lab) -> Lab:
    """Twenty orders and a few odd ids, and an engine that reads none of them by itself."""
    lab.with_options("insert_insert", snapshot__mode="no_data")
    ids: list[Any] = [*range(20), "7", {"a": 1}, OID]
    lab.collection("orders").insert_many([{"_id": n, "total": 1} for n in ids])
    return lab


def signal(lab: Lab, name: str, **data: object) -> None:
    """As an operator inserts it, through another connection."""
    data = {key.replace("_", "-"): value for key, value in data.items()}
    content = {"data-collections": [lab.name("orders")], **data}
    lab.signals.insert_one({"_id": name, "type": "execute-snapshot", "data": content})


@pytest.mark.slow
def test_single_ids_and_ranges_by_signal(lab: Lab, reads: Reads) -> None:
    """Exactly these are read: a number is no text of the same digits, an id that is not there is no error, and a range
    has both of its ends."""
    prepared(lab)
    with lab.running() as engine:
        signal(lab, "keys", keys=[7, 7.0, 999, {"a": 1}, OID], priority=3)
        done = engine.wait("keys", SECONDS)
        assert (done.tasks[0].state, done.tasks[0].rows, done.priority) == (TaskState.DONE, 3, 3)
        (target,) = reads.targets()
        assert isinstance(target, KeyList)
        assert len(target.ids) == 4
        assert len(lab.rows("orders")) == 3
        signal(lab, "range", range={"min": 10, "max": 16})
        assert engine.wait("range", SECONDS).tasks[0].rows == 7
        assert len(lab.rows("orders")) == 10
        name = engine.execute_snapshot(lab.name("orders"), id_range=(None, 9), priority=-1)
        assert engine.wait(name, SECONDS).tasks[0].rows == 10
        name = engine.execute_snapshot(lab.name("orders"), keys=["7", *range(17, 20)])
        assert engine.wait(name, SECONDS).tasks[0].rows == 4
        with pytest.raises(SignalError, match="keys must be a list of ids, at least one"):
            engine.execute_snapshot(lab.name("orders"), keys=[])
    lab.assert_equal("orders")


@pytest.mark.slow
def test_code_in_a_filter_is_refused(lab: Lab, reads: Reads) -> None:
    """The reason stands in the status, nothing is read, and the engine goes on; where an option allows code it runs."""
    prepared(lab)
    where = [{"data-collection": lab.name("orders"), "filter": '{"$where": "this._id === 3"}'}]
    with lab.running() as engine:
        signal(lab, "code", additional_conditions=where)
        engine.until("the refusal", lambda: dict(engine.engine.signal_outcomes.refused).get("code"), SECONDS)
        with pytest.raises(CodeInFilter, match=r"\$where"):
            engine.execute_snapshot(lab.name("orders"), filters={lab.name("orders"): where[0]["filter"]})
        lab.collection("people").insert_one({"_id": 1})
        engine.catch_up(SECONDS)
    refused = Status.from_json((lab.state / "status.json").read_text()).request("code")
    assert refused is not None
    assert refused.state is RequestState.REJECTED
    assert "$where, which runs JavaScript on the server" in (refused.error or "")
    assert reads.jobs == []
    lab.with_options(engine__filters__allow__code=True)
    with lab.running() as engine:
        name = engine.execute_snapshot(lab.name("orders"), filters={lab.name("orders"): where[0]["filter"]})
        assert engine.wait(name, SECONDS).tasks[0].rows == 1


def test_a_dry_run_reads_nothing(lab: Lab, reads: Reads) -> None:
    """It is answered beside the state, in the status collection, and to a program at once; it is no request,
    and its id is free for one. What would be refused is refused."""
    prepared(lab)

    def answered(engine: Snapshotter, name: str) -> tuple[object, ...]:
        answer = engine.until("the answer", lambda: read_answer(engine.engine.storage, name), SECONDS)
        (part,) = answer.collections
        assert (answer.documents, part.documents, part.notes) == (part.documents, answer.documents, ())
        return part.documents, part.first, part.last

    seven, nineteen = '{"$numberInt": "7"}', '{"$numberInt": "19"}'
    with lab.running() as engine:
        signal(lab, "all", dry_run=True)
        assert answered(engine, "all") == (23, '{"$numberInt": "0"}', f'{{"$oid": "{OID}"}}')
        signal(lab, "a range", range={"min": 7, "max": 19}, dry_run=True)
        assert answered(engine, "a range") == (13, seven, nineteen)
        told = SnapshotClient(lab.client, lab.name("signals")).wait("a range", SECONDS, progress=False)
        assert (told.command, told.state) == ("dry-run", "completed")
        assert told.answer is not None
        assert [(c["first"], c["last"], c["documents"]) for c in told.answer["collections"]] == [
            (seven, nineteen, 13)
        ]
        assert engine.dry_run(lab.name("orders"), keys=[7, 999]).documents == 1
        with pytest.raises(SignalError, match="is no captured collection"):
            engine.dry_run(lab.name("nowhere"))
        signal(lab, "upside down", range={"min": 19, "max": 7}, dry_run=True)
        engine.until(
            "the refusal", lambda: dict(engine.engine.signal_outcomes.refused).get("upside down"), SECONDS
        )
        assert reads.jobs == []
        assert engine.engine.journal.requests == ()
        run = engine.engine.run_state
        assert run is not None
        assert list(run.standing().requests) == []
        name = engine.execute_snapshot(lab.name("orders"), keys=[7], request_id="all")
        assert engine.wait(name, SECONDS).tasks[0].rows == 1
        asked = SnapshotClient(lab.client, lab.name("signals")).wait(name, SECONDS, progress=False)
        assert (asked.command, asked.answer, asked.rows) == (None, None, 1)
        signal(lab, "all again", dry_run=True)
        assert answered(engine, "all again")[0] == 23
