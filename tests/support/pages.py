"""The page of an engine that is only said to be there: its server and its inbox are real, its status is a test's own.

A scene is what such an engine says: one in the middle of a backfill, one that is broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from typing import Any

from signals.channels.inbox_channel import InboxChannel
from snapshotter.configuration.metrics_config import MetricsConfig
from snapshotter.configuration.page_config import PageConfig
from snapshotter.metrics.endpoint import Endpoint
from snapshotter.page.access import Access
from snapshotter.page.site import PageSite, Shown
from snapshotter.reporting.answers import answer_file, read_answer
from snapshotter.reporting.status import (
    CollectionReport,
    EngineState,
    ErrorReport,
    OplogReport,
    Position,
    RequestReport,
    RequestState,
    Status,
    SuspensionReport,
    TableReport,
)
from snapshotter.reporting.window_log import LandedWindow, OpenWindow
from snapshotter.state.storage import MemoryStorage

TOKEN = "a-token-that-a-test-has-chosen"
RUN = "run-1"
ORDERS, CUSTOMERS = "shop.orders", "shop.customers"


@dataclass(slots=True)
class Stage:
    """``status``, ``windows`` and ``flying`` are what the page is to show; ``inbox`` is where its signals come out. An
    engine that ``lives`` says the same again at each moment."""

    config: PageConfig = field(default_factory=lambda: PageConfig(port=0, token=TOKEN))
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    lives: bool = False
    status: Status | None = None
    windows: list[LandedWindow] = field(default_factory=list)
    flying: list[OpenWindow] = field(default_factory=list)
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    opened: list[int] = field(default_factory=list)
    site: PageSite = field(init=False)
    endpoint: Endpoint = field(init=False)
    inbox: InboxChannel = field(init=False)

    def __post_init__(self) -> None:
        self.inbox = InboxChannel(self.storage)
        shown = Shown(
            self.newest,
            lambda: self.windows,
            lambda run: self.flying if run == RUN else [],
            self.inbox.send,
            lambda signal_id: self.storage.delete(answer_file(signal_id)),
            lambda signal_id: read_answer(self.storage, signal_id),
        )
        access = Access.of(self.config, self.config.token or TOKEN)
        self.site = PageSite(self.config, lambda: access, shown, self.opened.append)
        self.endpoint = Endpoint(self.metrics, self.newest, self.site)

    def newest(self) -> Status | None:
        if not self.lives or self.status is None:
            return self.status
        return self.status.model_copy(update={"updated_at": moment()})

    @property
    def port(self) -> int:
        assert self.endpoint.page_port is not None
        return self.endpoint.page_port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(
        self, path: str, method: str = "GET", body: object = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        """Status code, headers and body of an answer, JSON as its value; ``_`` in the names of ``headers`` stands for a
        hyphen, and a Host header is made of the address unless it is given."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, bytes | None) else json.dumps(body)
        try:
            connection.request(method, path, text, named)
            answer = connection.getresponse()
            said = {name.lower(): value for name, value in answer.getheaders()}
            content = answer.read()
            kind = said.get("content-type", "")
            return answer.status, said, json.loads(content) if kind == "application/json" else content
        finally:
            connection.close()

    def act(self, body: object, **headers: str) -> tuple[int, Any]:
        """Send a signal as the page does, but for these ``headers``; an empty one is left out."""
        given = {
            "Origin": self.address.rstrip("/"),
            "Authorization": f"Bearer {TOKEN}",
            "Content_Type": "application/json",
            **headers,
        }
        code, _, said = self.ask("/api/signals", "POST", body, **{k: v for k, v in given.items() if v})
        return code, said

    def received(self) -> list[Any]:
        """The signals that have reached the inbox."""
        return [one.action for one in self.inbox.poll()]


@contextmanager
def staged(stage: Stage | None = None) -> Iterator[Stage]:
    """Its page, open until the end of the block."""
    found = stage or Stage()
    found.endpoint.open()
    try:
        yield found
    finally:
        found.endpoint.close()


def landed(
    number: int, began: datetime, rows: int = 20_000, dropped: int = 0, batch: int = 1
) -> LandedWindow:
    """A window that was read in two seconds, and landed in two more."""
    moments = [began + timedelta(seconds=s) for s in (0, 2, 2.1, 4)]
    return LandedWindow(
        f"{RUN}/{number}", number, "nightly", ORDERS, str(number), *moments, rows, dropped, 0, batch
    )


def backfill(stage: Stage, now: datetime) -> None:
    """An engine in the middle of a backfill, two windows in flight, while changes stream; and what it did before."""
    stage.windows = [
        landed(n, now - timedelta(seconds=42 - 1.6 * n), dropped=7 * n if n % 3 == 0 else 0, batch=n)
        for n in range(24)
    ]
    stage.flying = [
        OpenWindow(f"{RUN}/24", 24, ORDERS, now - timedelta(seconds=3), now - timedelta(seconds=1), None),
        OpenWindow(f"{RUN}/25", 25, ORDERS, now - timedelta(seconds=1)),
    ]
    orders = CollectionReport(
        name=ORDERS,
        state=RequestState.RUNNING,
        chunks_done=24,
        rows=478_236,
        dropped=1_764,
        estimated_total=2_000_000,
        inserted=470_000,
        changed=8_000,
        unchanged=236,
        rows_per_second=31_250.0,
        eta_seconds=48.6,
    )
    customers = CollectionReport(
        name=CUSTOMERS, state=RequestState.COMPLETED, chunks_done=1, rows=100, estimated_total=100
    )
    hour = timedelta(hours=1)
    stage.status = Status(
        name="shop",
        state=EngineState.RUNNING,
        health="Active",
        run_id=RUN,
        updated_at=now,
        batch=31,
        position=Position(t=int(now.timestamp()) - 1, i=1),
        lag_seconds=1,
        events_total=92_417,
        events_per_second=512.4,
        oplog=OplogReport(
            oldest=now - 72 * hour, hours=72.0, runway_hours=70.5, held_until=now + 70.5 * hour
        ),
        requests=(
            RequestReport(
                id="nightly", state=RequestState.RUNNING, collections=(orders,), accepted_at=now - hour / 120
            ),
            RequestReport(
                id="customers-again",
                state=RequestState.COMPLETED,
                collections=(customers,),
                accepted_at=now - hour,
                completed_at=now - hour + timedelta(seconds=3.4),
            ),
        ),
        tables=(
            TableReport(
                collection="shop.items", written_by="upsert", reason="larger than a MERGE is good for"
            ),
        ),
    )


def trouble(stage: Stage, now: datetime) -> None:
    """An engine that tries again after an error, with a collection that is suspended, and a snapshot that failed.
    What comes from data would be HTML if it were taken for that."""
    stage.windows, stage.flying = [], []
    hour = timedelta(hours=1)
    orders = CollectionReport(name=ORDERS, state=RequestState.FAILED, chunks_done=3, rows=60_000)
    stage.status = Status(
        name="shop",
        state=EngineState.RUNNING,
        health="Broken",
        run_id=RUN,
        updated_at=now,
        batch=31,
        position=Position(t=int(now.timestamp()) - 95, i=1),
        lag_seconds=95,
        events_total=92_417,
        oplog=OplogReport(oldest=now - 9 * hour, hours=9.0, runway_hours=8.6, held_until=now + 8.6 * hour),
        error=ErrorReport(
            kind="AutoReconnect",
            message="mongo-1:27017: connection refused",
            next_step="see whether MongoDB is up",
            at=now - timedelta(seconds=80),
            failure="connection",
            condition="source-away",
            retriable=True,
        ),
        requests=(
            RequestReport(
                id="<b>nightly</b>",
                state=RequestState.FAILED,
                collections=(orders,),
                accepted_at=now - hour,
                completed_at=now - hour / 2,
                error=f"{ORDERS}: <img src=x onerror=\"document.title='taken'\">",
                next_step="cure the cause, then resume it",
            ),
        ),
        suspended=(
            SuspensionReport(
                collection="shop.items",
                cause="altered",
                error="somebody else has altered its table",
                next_step="send execute-snapshot for it with reconcile",
                since=now - 2 * hour,
            ),
        ),
    )


def moment() -> datetime:
    return datetime.now(UTC)
