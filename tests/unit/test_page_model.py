"""What the page says of a status: one sentence, what to do next, and the numbers that a person looks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from snapshotter.page.model import SHOWN_MAX, model_of
from snapshotter.page.verdict import verdict_of
from snapshotter.reporting.health import STALE_SECONDS
from snapshotter.reporting.status import (
    ChannelReport,
    CollectionReport,
    DeadLettersReport,
    EngineState,
    ErrorReport,
    GapReport,
    OplogReport,
    RequestReport,
    RequestState,
    RestartReport,
    Status,
    SuspensionReport,
    UpkeepReport,
)
from tests.support.pages import Stage, backfill, trouble

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
ERROR = ErrorReport(kind="AutoReconnect", message="away", next_step="see whether it is up", at=NOW)


def status(**fields: Any) -> Status:
    return Status(**{"name": "shop", "state": EngineState.RUNNING, "updated_at": NOW, **fields})


def request(
    state: RequestState, name: str = "r", *collections: CollectionReport, **fields: Any
) -> RequestReport:
    read = collections or (CollectionReport(name="shop.orders", state=state),)
    return RequestReport(id=name, state=state, collections=read, accepted_at=NOW, **fields)


def suspension(restored_by: str | None = None) -> SuspensionReport:
    return SuspensionReport(
        collection="shop.items",
        cause="altered",
        error="it is gone",
        next_step="read it",
        since=NOW,
        restored_by=restored_by,
    )


@pytest.mark.parametrize(
    ("fields", "tone", "headline", "next_step"),
    [
        ({}, "good", "Changes land as they come", None),
        ({"state": EngineState.STARTING}, "busy", "The engine is starting", None),
        ({"state": EngineState.STOPPED}, "quiet", "The engine is stopped", "snapshotter run"),
        ({"state": EngineState.STOPPING}, "quiet", "The engine stops once", None),
        ({"state": EngineState.FAILED, "error": ERROR}, "bad", "The engine has failed: away", "see whether"),
        ({"error": ERROR}, "warn", "The engine tries again after an error: away", "see whether it is up"),
        ({"error": ERROR, "health": "Broken"}, "bad", "The engine tries again", "see whether it is up"),
        (
            {"error": ERROR, "restarts": RestartReport(count=2, most=7, next_at=NOW)},
            "bad",
            "Broken: the engine restarts by itself at 12:00:00 UTC (2 of 7 so far)",
            "see whether it is up",
        ),
        ({"stream_paused": True}, "warn", "The stream is paused: nothing lands", "resume the stream"),
        ({"suspended": (suspension(),)}, "bad", "shop.items is suspended", "read it"),
        ({"channels": (ChannelReport(name="kafka", trouble="no broker"),)}, "bad", "Signals by kafka", None),
        ({"requests": (request(RequestState.RUNNING),)}, "busy", "Reading shop.orders while", None),
        ({"requests": (request(RequestState.PAUSED),)}, "quiet", "1 snapshot is paused", "resume it"),
        ({"requests": (request(RequestState.QUEUED),)}, "busy", "A snapshot waits for its turn", None),
        ({"requests": (request(RequestState.COMPLETED),)}, "good", "Changes land as they come", None),
    ],
)
def test_one_sentence_and_what_to_do_next(
    fields: dict[str, Any], tone: str, headline: str, next_step: str | None
) -> None:
    """The worst comes first: the process, an error, a pause, what does not land, what is under way."""
    found = verdict_of(status(**fields), NOW)
    assert (found.tone, found.headline[: len(headline)]) == (tone, headline)
    assert (found.next_step or "").startswith(next_step or "")
    assert bool(found.next_step) is bool(next_step)


def test_an_engine_that_says_nothing() -> None:
    """Its page still answers, for it has a thread of its own; the process is named."""
    silent = status(pid=4_711, host="engine-1")
    assert verdict_of(silent, NOW + timedelta(seconds=STALE_SECONDS)).tone == "good"
    found = verdict_of(silent, NOW + timedelta(seconds=STALE_SECONDS + 1))
    assert (found.tone, found.headline) == ("bad", "The engine has said nothing for 31 s")
    assert "process 4711 on engine-1" in str(found.next_step)


def test_what_else_is_to_be_known() -> None:
    """Each with its next step, where there is one; what is being cured is no alarm."""
    noted = model_of(
        status(
            suspended=(suspension("r"),),
            gaps=(
                GapReport(
                    number=1, cause="gone", error="e", policy="heal", since=NOW, left=("a.b",), next_step="n"
                ),
            ),
            dead_letters=DeadLettersReport(
                total=3, waiting=2, collection="a.b", error="odd", next_step="replay"
            ),
            upkeep=(UpkeepReport(collection="a.b", error="no room"), UpkeepReport(collection="a.c")),
            warnings=("a warning",),
        ),
        NOW,
    )["notes"]
    assert [(note["tone"], note["next"]) for note in noted] == [
        ("warn", "n"),
        ("warn", "replay"),
        ("warn", None),
        ("busy", None),
        ("warn", None),
    ]
    assert "1 collection not compared yet" in noted[0]["text"]


def test_collections_are_shown_once() -> None:
    """By the request that reads them now, else by the newest; those that merely stream come last."""
    old = CollectionReport(name="shop.orders", state=RequestState.COMPLETED, rows=5)
    now = CollectionReport(
        name="shop.orders",
        state=RequestState.RUNNING,
        rows=30,
        dropped=10,
        estimated_total=160,
        eta_seconds=7.6,
    )
    done = CollectionReport(name="shop.items", state=RequestState.COMPLETED, rows=7)
    model = model_of(
        status(
            requests=(
                request(RequestState.RUNNING, "running", now),
                request(RequestState.COMPLETED, "newer", old, done, completed_at=NOW + timedelta(hours=1)),
                request(
                    RequestState.COMPLETED, "older", done.model_copy(update={"rows": 1}), completed_at=NOW
                ),
            )
        ),
        NOW,
    )
    orders, items = model["collections"]
    assert (orders["name"], orders["state"], orders["request"]) == ("shop.orders", "running", "running")
    assert (orders["read"], orders["share"], orders["superseded"], orders["eta_seconds"]) == (40, 0.25, 10, 8)
    assert (items["state"], items["request"], items["read"]) == ("streaming", "newer", 7)
    assert [r["id"] for r in model["requests"]] == ["running", "newer", "older"]
    assert model["reading"] == {"collections": 1, "rows_per_second": 0, "eta_seconds": 8}


@pytest.mark.parametrize(
    ("state", "can"),
    [
        (RequestState.QUEUED, ["pause-snapshot", "stop-snapshot"]),
        (RequestState.RUNNING, ["pause-snapshot", "stop-snapshot"]),
        (RequestState.PAUSED, ["resume-snapshot", "stop-snapshot"]),
        (RequestState.SUSPENDED, ["stop-snapshot"]),
        (RequestState.FAILED, ["resume-snapshot"]),
        (RequestState.COMPLETED, []),
        (RequestState.STOPPED, []),
    ],
)
def test_what_may_be_decided_about_a_snapshot(state: RequestState, can: list[str]) -> None:
    """As the signals have it."""
    (found,) = model_of(status(requests=(request(state),)), NOW)["requests"]
    assert found["can"] == can


def test_a_signal_that_was_rejected_is_no_snapshot() -> None:
    """There is nothing to go on with."""
    rejected = RequestReport(
        id="x", state=RequestState.REJECTED, error="no such collection", next_step="correct it"
    )
    (found,) = model_of(status(requests=(rejected,)), NOW)["requests"]
    assert (found["state"], found["can"], found["error"]) == ("rejected", [], "no such collection")


def test_what_may_be_decided_about_the_engine() -> None:
    """A stream that is paused is resumed; an engine that has ended takes nothing."""
    assert model_of(status(), NOW)["can"] == ["execute-snapshot", "pause-stream", "restart"]
    assert model_of(status(stream_paused=True), NOW)["can"][1] == "resume-stream"
    assert model_of(status(state=EngineState.STOPPED), NOW)["can"] == []


def test_a_long_list_is_cut() -> None:
    """An engine may capture thousands; how many are left out is said."""
    many = tuple(CollectionReport(name=f"shop.c{n:04}") for n in range(SHOWN_MAX + 5))
    requests = tuple(request(RequestState.QUEUED, f"r{n}", *many[:40]) for n in range(SHOWN_MAX + 2))
    model = model_of(status(requests=(request(RequestState.RUNNING, "all", *many), *requests)), NOW)
    assert (len(model["collections"]), model["collections_more"]) == (SHOWN_MAX, 5)
    assert (len(model["requests"]), model["requests_more"]) == (SHOWN_MAX, 3)
    assert all(r["collections_more"] + len(r["collections"]) == 40 for r in model["requests"][1:])


@pytest.mark.parametrize(
    "oplog", [None, OplogReport(oldest=NOW, hours=1.0), OplogReport(oldest=NOW, hours=1.0, runway_hours=0.0)]
)
def test_the_runway(oplog: OplogReport | None) -> None:
    """Not known, too young to tell, lost."""
    found = model_of(status(oplog=oplog), NOW)["runway"]
    assert found is None if oplog is None else found["lost"] is (oplog.runway_hours == 0)


def test_the_model_is_json() -> None:
    """In the middle of a backfill, and in trouble; the present error is not the last one as well."""
    for scene in (backfill, trouble):
        stage = Stage()
        scene(stage, NOW)
        assert stage.status is not None
        model = model_of(stage.status, NOW)
        assert orjson.loads(orjson.dumps(model)) == model
        assert model["error"] is None or model["last_error"] is None
