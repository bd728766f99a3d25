"""Ten thousand signals at once, most of them wrong: the engine streams on, and says of each what became of it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import pytest

from snapshotter.core.values.tasks import TaskState
from snapshotter.reporting.refusals import KEPT
from snapshotter.state.storage import LocalStorage
from snapshotter.testing.processes import meanwhile
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # requests wait for batches
SIGNALS = 10_000
TINY = ("a", "b")


def executing(lab: Lab, name: str, collection: str, **data: object) -> dict[str, Any]:
    wanted = {"data-collections": [lab.name(collection)], **data}
    return {"_id": name, "type": "execute-snapshot", "data": wanted}


def wrong(lab: Lab) -> list[dict[str, Any]]:
    """Signals that are refused, in as many ways: the id says which."""

    def filtered(name: str, text: str) -> dict[str, Any]:
        condition = {"data-collection": lab.name("a"), "filter": text}
        return executing(lab, name, "a", **{"additional-conditions": [condition]})

    found: list[dict[str, Any]] = []
    for n in range(1_000):
        found += [
            {"_id": f"no-json-{n}", "type": "execute-snapshot", "data": "{"},
            {"_id": f"no-type-{n}", "type": n, "data": {}},
            {"_id": f"unknown-{n}", "type": f"no-such-{n}", "data": {}},
            executing(lab, f"misspelt-{n}", "a", **{"additional-condition": "{}"}),
            executing(lab, f"nowhere-{n}", f"no_such_{n}"),
            filtered(f"code-{n}", '{"$where": "sleep(1000)"}'),
        ]
    return found + [filtered(f"filter-{n}", f'{{"total": {{"$nope": {n}}}}}') for n in range(500)]


def harmless(lab: Lab) -> list[dict[str, Any]]:
    """One request delivered very often, under many ids of documents; messages, and pauses of what nobody has."""
    again = {k: v for k, v in executing(lab, "", TINY[-1]).items() if k != "_id"}
    logs = [{"_id": f"log-{n}", "type": "log", "data": {"message": "{}"}} for n in range(1_000)]
    pauses = [
        {"_id": f"p-{n}", "type": "pause-snapshot", "data": {"requests": [f"x{n}"]}} for n in range(400)
    ]
    return [{"id": "again", **again} for _ in range(2_000)] + logs + pauses


def writing(lab: Lab) -> AbstractContextManager[None]:
    """Changes, all the while."""
    numbers = count()
    return meanwhile(lambda: lab.collection("streamed").insert_one({"_id": next(numbers)}), every=0.05)


def test_ten_thousand_signals_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one that is wrong has its reason in the status collection, and the newest in the status; a request that came
    two thousand times runs once; a stop in their midst ends what came before it; what came after it completes. The
    journal is written once for all, and the stream goes on meanwhile."""
    lab.with_options(snapshot__mode="no_data")
    for name in TINY:
        lab.collection(name).insert_many([{"_id": n} for n in range(3)])
    refused, fine = wrong(lab), harmless(lab)
    before = [executing(lab, f"before-{n}", TINY[0], keys=[n]) for n in range(40)]
    after = [executing(lab, f"after-{name}", name) for name in TINY[:-1]]
    stop = {"_id": "stop", "type": "stop-snapshot", "data": {}}
    signals = [*refused[: len(refused) // 2], *before, stop, *after, *refused[len(refused) // 2 :], *fine]
    signals += [{"_id": f"more-{n}", "type": "none", "data": {}} for n in range(SIGNALS - len(signals))]
    ids = {signal.get("_id", "again") for signal in signals}
    expected = len(refused) + sum(name.startswith("more-") for name in ids)
    statuses = lab.client[lab.database]["signals_status"]
    journal: list[int] = []
    write_text = LocalStorage.write_text

    def watched(storage: LocalStorage, name: str, text: str) -> None:
        if name == "journal.json":
            journal.append(len(text))
        write_text(storage, name, text)

    monkeypatch.setattr(LocalStorage, "write_text", watched)
    with lab.running() as engine:
        with writing(lab):
            lab.collection("streamed").insert_one({"_id": "first"})
            engine.catch_up(SECONDS)  # there is a table, and all is warm
            started = time.monotonic()
            lab.signals.insert_many(signals, ordered=False)
            lab.collection("streamed").insert_one({"_id": "behind them"})
            inserted = time.monotonic()
            engine.catch_up(SECONDS)
            caught_up = time.monotonic()
            for request in ("again", *(signal["_id"] for signal in after)):
                (task,) = engine.wait(request, SECONDS).tasks
                assert (task.state, task.rows + task.superseded) == (TaskState.DONE, 3)
            ended = time.monotonic()
            rejected = {"state": "rejected", "reason": {"$type": "string"}}
            engine.until("the refusals", lambda: statuses.count_documents(rejected) >= expected, SECONDS)
            told = time.monotonic()
            states = {d["id"]: d for d in statuses.find()}
            assert {s["_id"] for s in refused} <= {i for i, d in states.items() if d["state"] == "rejected"}
            assert {d["state"] for i, d in states.items() if i.startswith("before-")} == {"stopped"}
            assert {d["command"] for i, d in states.items() if i.startswith("log-")} == {"log"}
            assert (states["stop"]["state"], states["stop"]["requests_met"]) == ("completed", 40)
            assert len(engine.engine.signal_outcomes.refused) == KEPT
            starts = [a.request_id for a in engine.engine.announcer.announced if a.kind == "STARTED"]
            assert len(starts) == len(set(starts))
        engine.catch_up(SECONDS)
    print(
        f"inserted {inserted - started:.1f} s, caught up {caught_up - inserted:.1f} s, valid ones ended "
        f"{ended - inserted:.1f} s, all told {told - inserted:.1f} s, journal written {journal}"
    )
    assert len(journal) < 20
    assert set(states) == ids
    lab.assert_equal("streamed", *TINY)
