"""Whatever a channel shows, an engine takes it or refuses it with a reason, and goes on: with filters tried
on a real server, and a journal.

A hundred deliveries in the ordinary profile and two thousand in the thorough one; what is in them, and in one signal
alone, is the business of `property/test_signals_fuzz.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from signals.actions import ExecuteSnapshot
from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from snapshotter.testing.processes import wait_until
from streaming.namespaces import Namespace
from tests.support.handling import Handling
from tests.support.signal_channels import ListChannel

_WORDS = (
    "", "orders", ".*", "(?=x)", "(a+)+$", '"', "execute-snapshot", "incremental", "blocking", "\x00", "\u00e9",
    "{a: 1}", '{"$where": "1"}', '{"$nope": 1}', '{"a": {"$regex": "("}}', '{"$expr": {"$eq": [1]}}', "9" * 400,
)  # fmt: skip
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(_WORDS) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=3),
    max_leaves=8,
)
_filters = st.dictionaries(
    st.sampled_from(("a", "$or", "$where", "$expr", "$nope", "a.b")), _values, max_size=2
)
_fields: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(("incremental", "blocking", "INCREMENTAL")) | _values,
    "additional-conditions": st.lists(
        st.fixed_dictionaries({"data-collection": st.just("@.orders"), "filter": _filters | _values}),
        max_size=2,
    ),
    "keys": st.lists(_values, max_size=3),
    "range": st.fixed_dictionaries({}, optional={"min": _values, "max": _values}),
    "reconcile": st.booleans() | _values,
    "priority": st.integers() | _values,
    "dry-run": st.booleans() | _values,
    "requests": st.lists(st.sampled_from(("1", "2", "x")) | _values, max_size=2),
    "message": _values,
}
_names = st.lists(st.sampled_from(("@.orders", "@..*", "@.none", "(")) | st.sampled_from(_WORDS), max_size=3)
_data = st.fixed_dictionaries({"data-collections": _names | _values}, optional=_fields) | _values
_kinds = ("execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "log", "nothing")
_signals = st.fixed_dictionaries(
    {"type": st.sampled_from(_kinds) | _values},
    optional={"id": st.sampled_from(("1", "2", "3")) | _values, "data": _data | _data.map(json.dumps)},
)
# Most of these are requests that a server is asked about.
_id, _name = st.sampled_from(("1", "2", "3", "4")), st.sampled_from(("@.orders", "@..*", "@.or.+"))
_likely = st.sampled_from(
    [
        {},
        {"keys": [1, "a"]},
        {"range": {"min": 3}},
        {"dry-run": True},
        {"priority": 2},
        *(
            {"additional-conditions": [{"data-collection": "@.orders", "filter": f}]}
            for f in ({"a": 1}, "{$nope: 1}")
        ),
    ]
)
_requests = st.builds(
    lambda name, wanted, more, odd: {
        "id": name,
        "type": "execute-snapshot",
        "data": {"data-collections": wanted, **more, **odd},
    },
    *(_id, st.lists(_name, min_size=1, max_size=2, unique=True), _likely),
    st.just({}) | st.dictionaries(st.sampled_from(sorted(_fields)), _values, max_size=1),
)
_texts = _requests.map(json.dumps) | _signals.map(json.dumps) | st.text(max_size=30)
_deliveries = st.lists(_texts.map(str.encode) | st.binary(max_size=30), min_size=1, max_size=6)


@dataclass
class Around:
    """An engine that has not begun, on a real server, and what it says of signals."""

    client: MongoClient[dict[str, Any]]
    namespace: Namespace
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.config = SimpleNamespace(requests_max=1_000, allow_code=False, name="fuzzed")
        self.journal, self.store = Journal(self.storage), ProgressStore(self.storage)

    def captured(self) -> list[Namespace]:
        return [self.namespace]

    def refuse(self, signal_id: str, why: str) -> None:
        assert why
        self.said.add(signal_id)

    def report(self, outcome: SignalOutcome) -> None:
        self.said.add(outcome.id)

    def heard(self) -> set[str]:
        """The ids of which something was said, or that are requests."""
        return self.said | {request.id for request in self.journal.requests}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(texts=_deliveries)
def test_whatever_comes_is_taken_or_refused(
    mongo_client: MongoClient[dict[str, Any]], database: str, texts: list[bytes]
) -> None:
    """All of a delivery is acknowledged, something is said of each signal under its id, and a good one behind them is
    carried out."""
    around = Around(mongo_client, Namespace(database, "orders"))
    waiting = {str(n): text.replace(b"@.", database.encode() + b".") for n, text in enumerate(texts)}
    good = {"id": "good", "type": "execute-snapshot", "data": {"data-collections": [f"{database}.orders"]}}
    waiting["last"] = json.dumps(good).encode()
    channel = ListChannel(waiting, shaky=False)
    ids = {received.id for received in channel.poll()}
    dry = any(
        isinstance(received.action, ExecuteSnapshot) and received.action.dry_run
        for received in channel.poll()
    )
    Handling(around).look_at(channel)
    assert waiting == {}
    if dry:
        wait_until(lambda: ids <= around.heard(), "the dry runs to be answered")
    assert ids <= around.heard()
    assert "good" in {request.id for request in around.journal.requests}
