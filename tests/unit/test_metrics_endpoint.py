"""The endpoint over HTTP: what it shows, what it refuses, and when it calls an engine alive and ready."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from snapshotter.configuration.metrics_config import MetricsConfig
from snapshotter.errors import EXIT_CONFIGURATION, ConfigurationError
from snapshotter.metrics.catalogue import CATALOGUE, measured
from snapshotter.metrics.endpoint import Endpoint, check_port
from snapshotter.metrics.figures import Lag, Look
from snapshotter.metrics.health import SILENT_SECONDS, healthy, ready
from snapshotter.reporting.status import CollectionReport, EngineState, ErrorReport, RequestReport, Status

LABELS = {"name": "shop", "server": "shops", "env": 'a "b"\n\\c'}
CONFIG = MetricsConfig("127.0.0.1", 0, LABELS)


def status(**fields: Any) -> Status:
    given: dict[str, Any] = {"state": EngineState.RUNNING, "updated_at": datetime.now(UTC), "batch": 3}
    found = Status(name="shop", **{**given, **fields})
    counts = {"batches": {"": 3}, "retries": {"run": 1}, "events_seen": {"c": 12}}
    look = Look(found, counts, Lag.of([500, 1_500]))
    return found.model_copy(update={"metrics": measured(look)})


class Shown:
    """An endpoint, and the status that it shows."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.endpoint = Endpoint(CONFIG, lambda: self.status)

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
        """Status code, content type, body."""
        assert self.endpoint.port is not None
        connection = HTTPConnection("127.0.0.1", self.endpoint.port, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type", ""), answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def shown() -> Iterator[Shown]:
    found = Shown()
    found.endpoint.open()
    try:
        yield found
    finally:
        found.endpoint.close()


def series(text: str, parse: Any = prometheus) -> dict[tuple[str, str], float]:
    """By name and by the value of the figure's own label."""
    own = {figure.full_name: figure.label for figure in CATALOGUE}
    return {
        (sample.name, sample.labels.get(own[sample.name], "")): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def told(found: Status) -> dict[tuple[str, str], float]:
    """What ``status --json`` says, by the same keys."""
    names = {(figure.context, figure.name): figure.full_name for figure in CATALOGUE}
    return {
        (names[context, name], part): float(number)
        for context, figures in found.metrics.items()
        for name, value in figures.items()
        for part, number in (value.items() if isinstance(value, dict) else [("", value)])
    }


@pytest.mark.parametrize(
    ("accept", "kind", "parse"),
    [
        ("", "text/plain", prometheus),
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text", openmetrics),
    ],
)
def test_prometheus_is_shown_what_the_status_says(shown: Shown, accept: str, kind: str, parse: Any) -> None:
    """The same figures, in both of its forms; each series with all labels, whatever is in their values."""
    orders = CollectionReport(name='shop.or"ders', rows=7)
    shown.status = status(requests=(RequestReport(id="r", collections=(orders,)),), lag_seconds=2)
    code, content_type, text = shown.ask("/metrics", **({"accept": accept} if accept else {}))
    assert (code, content_type.split(";")[0]) == (200, kind)
    found = series(text, parse)
    assert found == told(shown.status)
    assert found["snapshotter_snapshot_rows_scanned", 'shop.or"ders'] == 7
    for family in parse(text):
        for sample in family.samples:
            assert LABELS.items() <= sample.labels.items()


def test_types_and_meanings_are_told(shown: Shown) -> None:
    """Those of the catalogue."""
    shown.status = status(lag_seconds=2)
    families = {f.name: f for f in prometheus(shown.ask("/metrics")[2])}
    types = {"counter": "counter", "gauge": "gauge", "untyped": "unknown"}
    for figure in CATALOGUE:
        family = families.get(figure.full_name.removesuffix("_total"))
        if family is not None:
            assert (family.type, family.documentation) == (types[figure.kind], figure.meaning)
    assert families["snapshotter_engine_batches"].type == "counter"


def test_before_the_first_status_there_are_no_figures(shown: Shown) -> None:
    """The endpoint answers from the start on."""
    assert shown.ask("/metrics")[::2] == (200, "")
    assert shown.ask("/healthz")[::2] == (200, "starting\n")
    assert shown.ask("/readyz")[::2] == (503, "starting\n")


def test_a_running_engine_is_healthy_and_ready(shown: Shown) -> None:
    """HEAD is answered as well; the status is read anew each time."""
    shown.status = status()
    assert shown.ask("/healthz")[::2] == (200, "running\n")
    assert shown.ask("/readyz")[::2] == (200, "ready\n")
    assert shown.ask("/readyz", "HEAD")[::2] == (200, "")
    shown.status = status(batch=None)
    assert shown.ask("/readyz")[::2] == (503, "no batch has landed yet\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_it_is_read_only(shown: Shown, method: str, path: str) -> None:
    """Nothing but GET and HEAD is allowed."""
    assert shown.ask(path, method)[0] == 405


@pytest.mark.parametrize("path", ["/", "/metrics/", "/status.json", "/../etc/passwd"])
def test_there_is_nothing_else(shown: Shown, path: str) -> None:
    """No other page, and no redirect to one that there is."""
    assert shown.ask(path)[0] == 404


def test_the_port_is_free_again_once_it_is_closed(shown: Shown) -> None:
    """Another endpoint may have it; closing twice does no harm."""
    port = shown.endpoint.port
    shown.endpoint.close()
    shown.endpoint.close()
    again = Endpoint(replace(CONFIG, port=port), lambda: None)
    again.open()
    again.close()


def test_without_a_port_nothing_is_opened() -> None:
    """Nor is anything checked."""
    nowhere = MetricsConfig("no.such.host.invalid", None)
    check_port(nowhere)
    endpoint = Endpoint(nowhere, lambda: None)
    endpoint.open()
    assert endpoint.port is None
    endpoint.close()


@contextmanager
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_that_is_taken() -> None:
    """An error of the configuration that names option, port and address, and what to do."""
    with taken() as port, pytest.raises(ConfigurationError) as refusal:
        Endpoint(replace(CONFIG, port=port), lambda: None).open()
    assert refusal.value.code == EXIT_CONFIGURATION
    assert f"metrics.port = {port}" in str(refusal.value)
    assert "Address already in use" in str(refusal.value)
    assert "another metrics.port" in str(refusal.value.next_step)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_this_machines(host: str) -> None:
    """metrics.host is named."""
    with pytest.raises(ConfigurationError, match=r"metrics\.host"):
        check_port(MetricsConfig(host, 9_404))


def test_an_engine_that_says_nothing_is_not_healthy() -> None:
    """Its control loop hangs; whoever started the process should start it again."""
    now = time.time()
    fresh = status(updated_at=datetime.fromtimestamp(now, UTC) - timedelta(seconds=SILENT_SECONDS - 1))
    hung = status(updated_at=datetime.fromtimestamp(now, UTC) - timedelta(seconds=SILENT_SECONDS + 1))
    assert healthy(fresh, now).good
    assert not healthy(hung, now).good
    assert not ready(hung, now).good


def test_an_engine_that_tries_again_is_healthy_and_not_ready() -> None:
    """Killing it would help nobody; of the error only the class is said."""
    failing = status(error=ErrorReport(kind="AutoReconnect", message="mongodb://secret"))
    assert healthy(failing, time.time()).good
    answer = ready(failing, time.time())
    assert not answer.good
    assert "AutoReconnect" in answer.text
    assert "secret" not in answer.text


def test_an_engine_that_has_ended_is_not_ready() -> None:
    """Stopped or failed."""
    for state in (EngineState.STOPPED, EngineState.FAILED):
        assert not ready(status(state=state), time.time()).good
