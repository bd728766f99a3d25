"""Requests that reach a running engine: through the collection and in process, good ones and all kinds of bad ones."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from snapshotter.core.values.progress import Progress
from snapshotter.errors import DefiniteError
from snapshotter.reading.catalogue import RequestRefused
from snapshotter.reporting.status import EngineState, RequestState, Status
from streaming.positions import ClusterTime
from tests.support import raw_bson as b
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, reads

__all__ = ["lab", "reads"]


def signal(*collections: str, **more: object) -> dict[str, Any]:
    return {"type": "execute-snapshot", "data": {"data-collections": list(collections), **more}}


def malformed(lab: Lab) -> dict[str, Any]:
    """Signals by id, each wrong in its own way."""
    orders = lab.name("orders")
    condition = [{"data-collection": orders, "filter": '{"$nope": 1}'}]
    return {
        "no-type": {"data": {}},
        "unknown-type": {"type": "make-coffee", "data": {}},
        "no-data": {"type": "execute-snapshot"},
        "data-no-json": {"type": "execute-snapshot", "data": "{oops"},
        "unknown-key": signal(orders, typo=1),
        "unknown-collection": signal(lab.name("missing")),
        "bad-filter": signal(orders, **{"additional-conditions": condition}),
        "filter-no-json": signal(
            orders, **{"additional-conditions": [{"data-collection": orders, "filter": "{n: "}]}
        ),
        "blocking": signal(orders, type="blocking", keys=[1]),
    }


WRONG = {
    "no-type": "type",
    "unknown-type": "make-coffee",
    "no-data": "data",
    "data-no-json": "{oops",
    "unknown-key": "typo",
    "bad-filter": "$nope",
    "filter-no-json": "{n: ",
    "blocking": "keys",
}
"""The field or the value that each of them has to be told."""


def test_malformed_signals_do_no_harm(lab: Lab) -> None:
    """Each is refused with its reason in the status, under its own id; the engine, other requests and the stream go on.
    Neither a signal that is no readable BSON, nor a drop of the signal collection, stops it."""
    lab.with_options(snapshot__mode="no_data")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(5)])
    bad = malformed(lab)
    odd = b.raw(("_id", b.string(b"\xff")), ("type", b.string("execute-snapshot")), ("data", b.string("{}")))
    broken = b.raw(("_id", b.string("broken")), ("type", b.string(b"\xff\xfe")), ("data", b.embedded()))
    old = b.raw(("_id", b.binary(b"", 2)), ("type", b.string("execute-snapshot")), ("data", b.string("{}")))
    with lab.running() as engine:
        run = engine.engine.run_state
        lab.signals.insert_many([{"_id": name, **content} for name, content in bad.items()])
        late = b.raw(("_id", b.date(2**62)), ("x", b.int32(1)))
        lab.signals.insert_many(
            [odd, broken, late, old, {"_id": {"a": 1}, "x": 1}, {"_id": b"\1", **signal("x.y")}]
        )
        lab.signals.insert_one({"id": "named apart", "type": "execute-snapshot", "data": "no JSON"})
        lab.signals.insert_one({"_id": "good", **signal(lab.name("orders"))})
        assert engine.wait("good", SECONDS).tasks[0].rows == 5
        engine.catch_up(SECONDS)
        refused = dict(engine.engine.signal_outcomes.refused)
        assert bad.keys() <= refused.keys()
        assert all(name in refused[name] for name in bad), "the reason names the signal"
        assert "named apart" in refused["named apart"], "an id beside _id is the signal's"
        assert "missing" in refused["unknown-collection"]
        assert "orders" in refused["unknown-collection"]
        for name, word in WRONG.items():
            assert word in refused[name].removeprefix(f"signal {name!r}"), refused[name]
        lab.signals.drop()
        lab.signals.insert_one({"_id": "after the drop", **signal(lab.name("orders"))})
        assert engine.wait("after the drop", SECONDS).tasks[0].error is None
        assert engine.engine.run_state is run, "no restart"
    status = Status.from_json((lab.state / "status.json").read_text())
    states = {request.id: (request.state, request.error) for request in status.requests}
    assert all(states[name] == (RequestState.REJECTED, refused[name]) for name in bad)
    assert states["good"] == (RequestState.COMPLETED, None)
    assert [(t.collection, t.slower) for t in status.tables] == [(lab.name("orders"), False)]
    lab.assert_equal("orders")


def test_the_last_word_of_the_inbox(lab: Lab) -> None:
    """Without a signal collection signals come by the inbox: what cannot be read is refused, and leaves the inbox."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    lab.collection("orders").insert_many([{"_id": n} for n in range(5)])
    inbox = lab.state / "inbox"
    with lab.running() as engine:
        inbox.mkdir(exist_ok=True)
        (inbox / "torn.json").write_text('{"id": "torn", "type"')
        (inbox / "good.json").write_text(json.dumps({"id": "good", **signal(lab.name("orders"))}))
        assert engine.wait("good", SECONDS).tasks[0].rows == 5
        engine.until(
            "the bad one to be refused",
            lambda: dict(engine.engine.signal_outcomes.refused).get("torn"),
            SECONDS,
        )
        engine.until("an empty inbox", lambda: not list(inbox.glob("*.json")), SECONDS)
    lab.assert_equal("orders")


def test_filters_patterns_and_ids(lab: Lab, reads: Reads) -> None:
    """A filter reads what it matches and nothing else; a pattern names several collections; a request of a known id is
    carried out once; what cannot be is refused in process too."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    for name in ("orders", "orders_old", "people"):
        lab.collection(name).insert_many([{"_id": n, "even": n % 2 == 0} for n in range(10)])
    pattern = rf"{lab.database}\.orders.*"
    with lab.running() as engine:
        request = engine.wait(
            engine.execute_snapshot(lab.name("people"), filters={lab.name("people"): '{"even": true}'}),
            SECONDS,
        )
        assert request.tasks[0].rows == 5
        assert sorted(row["_id"] for row in lab.rows("people")) == [0, 2, 4, 6, 8]
        request = engine.wait(engine.execute_snapshot(pattern, request_id="twice"), SECONDS)
        assert [t.namespace.collection for t in request.tasks] == ["orders", "orders_old"]
        count = len(reads.jobs)
        again = engine.wait(engine.execute_snapshot(pattern, request_id="twice"), SECONDS)
        assert again.tasks == request.tasks
        nothing = {lab.name("people"): '{"even": "neither"}'}
        request = engine.wait(engine.execute_snapshot(lab.name("people"), filters=nothing), SECONDS)
        assert (request.failed, request.tasks[0].rows) == (False, 0)
        assert len(reads.jobs) == count
        with pytest.raises(RequestRefused, match="is no captured collection"):
            engine.execute_snapshot(lab.name("nowhere"))
        with pytest.raises(RequestRefused, match=r"the filter \{\"\$nope\": 1\}"):
            engine.execute_snapshot(lab.name("people"), filters={lab.name("people"): '{"$nope": 1}'})
    lab.assert_equal("orders", "orders_old")


def test_an_idle_engine_moves_its_position(lab: Lab) -> None:
    """Nobody writes, and yet the saved position moves on, so that it never falls out of the oplog."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    with lab.running() as engine:
        start, batch = engine.position(), engine.progress_batch()
        engine.until("the position to move", lambda: engine.position() > start, SECONDS)
        engine.until("another batch", lambda: engine.progress_batch() > batch, SECONDS)
        saved = engine.engine.store.newest()
        assert saved is not None
        assert saved.position > start


def test_a_position_is_seen_only_when_it_is_saved(lab: Lab) -> None:
    """Whoever asks while progress is being saved waits until it is: nothing is shown that a crash could take back."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    seen: list[tuple[ClusterTime, ClusterTime]] = []
    with lab.running() as engine, ThreadPoolExecutor(1) as reader:
        store = engine.engine.store
        save = store.save

        def slowly(progress: Progress) -> None:
            asked = reader.submit(engine.position)
            if wait([asked], 0.3).done:
                seen.append((asked.result(), (store.newest() or Progress()).position))
            save(progress)

        store.save = slowly  # type: ignore[method-assign]
        batch = engine.progress_batch()
        engine.until("two more batches", lambda: engine.progress_batch() > batch + 2, SECONDS)
    assert all(shown <= saved for shown, saved in seen), seen


def test_a_second_engine_of_one_name_is_refused(lab: Lab, reads: Reads) -> None:
    """The message gives the address of the first one, which is unharmed, and so is the window that it has open; when it
    has stopped the name is free."""
    lab.with_options("insert_insert", snapshot__mode="no_data")
    orders = lab.collection("orders")
    orders.insert_one({"_id": 0})
    reads.before = gate = Gate(lambda number, job: True)
    with lab.running() as first:
        request = first.execute_snapshot(lab.name("orders"))
        assert gate.ready.wait(SECONDS)
        opened = list(lab.signals.find())
        assert len(opened) == 1
        owner = first.engine.status.owner
        with pytest.raises(Exception, match=f"host {owner.host}, process {owner.pid}") as refused:
            lab.engine().start()
        assert "another engine named" in str(refused.value)
        assert list(lab.signals.find()) == opened
        gate.go.set()
        assert first.wait(request, SECONDS).tasks[0].rows == 1
        assert len(reads.jobs) == 1, "the window closed at its first attempt"
        orders.insert_one({"_id": 1})
        first.catch_up(SECONDS)
        status = Status.from_json((lab.state / "status.json").read_text())
        assert status.state is EngineState.RUNNING
    with lab.running() as second:
        orders.insert_one({"_id": 2})
        second.catch_up(SECONDS)
    lab.assert_equal("orders")


def test_waiting_ends_with_what_ended_the_engine(lab: Lab) -> None:
    """A request that was refused, and an engine that has ended, are errors for whoever waits."""
    lab.with_options(snapshot__mode="no_data")
    with lab.running() as engine:
        lab.signals.insert_one({"_id": "bad", "type": "execute-snapshot", "data": {}})
        with pytest.raises(DefiniteError, match="bad"):
            engine.wait("bad", SECONDS)
    with pytest.raises(DefiniteError, match="has ended while waiting"):
        engine.wait("never", SECONDS)
