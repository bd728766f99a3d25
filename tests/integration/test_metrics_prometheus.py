"""A real Prometheus scrapes a running engine, and finds there what its status says."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from snapshotter.api import Snapshotter
from snapshotter.cli.app import app
from snapshotter.errors import EXIT_CONFIGURATION, ConfigurationError
from snapshotter.metrics.catalogue import CATALOGUE
from snapshotter.metrics.figures import Context
from snapshotter.reporting.status import Metrics
from snapshotter.testing.processes import free_port, wait_until
from tests.support.engines import SECONDS, Lab, Reads, lab, reads
from tests.support.packaged import expressions
from tests.support.prometheus import Prometheus, check_metrics, check_rules, scraping

__all__ = ["lab", "reads"]

MOVING = {
    "snapshotter_engine_updated_timestamp_seconds",
    "snapshotter_engine_batches_total",
    "snapshotter_engine_batch_seconds_total",
    "snapshotter_snapshot_milli_seconds_since_last_event",
    "snapshotter_streaming_milli_seconds_since_last_event",
    "snapshotter_streaming_source_event_position",
    "snapshotter_streaming_number_of_empty_polls",
    "snapshotter_streaming_last_empty_poll_time",
    "snapshotter_streaming_milli_seconds_behind_source",
}
"""What goes on changing in an engine at rest."""


def at(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def metrics(lab: Lab) -> Metrics:
    """As ``status --json`` prints them."""
    printed = CliRunner().invoke(app, ["status", "-c", str(lab.config_file()), "--json"])
    assert printed.exit_code == 0
    return dict(json.loads(printed.stdout)["metrics"])


def engine(found: Metrics) -> dict[str, object]:
    return dict(found[Context.ENGINE])


def events(found: Metrics) -> list[object]:
    """Inserts, updates, deletes."""
    kinds = "create", "update", "delete"
    return [found[Context.STREAMING][f"total_number_of_{kind}_events_seen"] for kind in kinds]


@contextmanager
def scraped(lab: Lab, **options: object) -> Iterator[tuple[Snapshotter, Prometheus, int]]:
    port = free_port()
    lab.with_options(metrics__port=port, **options)
    with lab.running() as running, scraping(f"127.0.0.1:{port}") as prometheus:
        yield running, prometheus, port


def agrees(prometheus: Prometheus, found: Metrics) -> bool:
    """Whether the newest scrape has every figure at rest as the status has it."""
    for figure in CATALOGUE:
        value = found[figure.context].get(figure.name)
        if value is None or figure.full_name in MOVING or "_behind_source_" in figure.full_name:
            continue
        said = {"": value} if not isinstance(value, dict) else value
        shown = {
            one["metric"].get(figure.label, ""): one["value"] for one in prometheus.query(figure.full_name)
        }
        if shown != {part: float(number) for part, number in said.items()}:
            print(f"{figure.full_name}: {shown} is shown, {said} is said")
            return False
    return True


def test_prometheus_finds_what_the_status_says(lab: Lab, reads: Reads) -> None:
    """A load beside changes, then changes alone: every figure of Debezium's and of ours, with the tags that were given
    and under its type. Lag, events by operation, READs superseded, rows by cause are those that there were. When the
    engine has ended, there is nothing to scrape."""
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(40)])

    def before(number: int, job: object) -> None:
        orders.update_one({"_id": 1}, {"$set": {"v": "before the read"}})
        orders.delete_one({"_id": 2})

    def after(number: int, job: object, buffer: object) -> None:
        orders.update_one({"_id": 3}, {"$set": {"v": "after the read"}})

    reads.before, reads.after = before, after
    tags = {"custom__metric__tags": "env=test,bu=bigdata", "topic__prefix": "shops"}
    with scraped(lab, snapshot__mode="no_data", **tags) as (running, prometheus, port):
        request = running.wait(running.execute_snapshot(lab.name("orders")), SECONDS)
        (task,) = request.tasks
        assert task.superseded > 0
        orders.insert_many([{"_id": n, "v": 1} for n in range(100, 107)])
        orders.delete_many({"_id": {"$gte": 105}})
        running.catch_up(SECONDS)
        wait_until(lambda: events(metrics(lab)) == [7, 2, 3], "the status to tell the events")
        wait_until(lambda: agrees(prometheus, metrics(lab)), "Prometheus to see what the status says")

        found = metrics(lab)
        assert events(found) == [7, 2, 3]
        assert found["snapshot"]["rows_scanned"] == {lab.name("orders"): task.rows + task.superseded}
        assert found["snapshot"]["snapshot_completed"] == 1
        assert engine(found)["reads_superseded_total"] == task.superseded
        rows = engine(found)["rows_landed_total"]
        assert isinstance(rows, dict)
        assert rows["read"] == task.rows
        assert prometheus.value("snapshotter_engine_batches_total") is not None
        (series,) = prometheus.query("snapshotter_streaming_connected")
        labels = {"name": f"engine-{lab.database}", "server": "shops", "env": "test", "bu": "bigdata"}
        assert series["value"] == 1
        assert labels.items() <= series["metric"].items()
        assert prometheus.value("snapshotter_streaming_milli_seconds_behind_source_p99") is not None
        types = prometheus.types()
        shown = {"gauge": "gauge", "counter": "counter", "untyped": "unknown"}
        told = {
            f.full_name: shown[f.kind]
            for f in CATALOGUE
            if f.name in found[f.context] and found[f.context][f.name] != {}
        }
        assert {name: types.get(name) or types.get(name.removesuffix("_total")) for name in told} == told
        assert (at(port, "/healthz")[0], at(port, "/readyz")) == (200, (200, "ready\n"))
        running.stop()
        wait_until(lambda: prometheus.target()["health"] == "down", "the engine's end to be seen")


def test_promtool_has_nothing_to_say_of_our_own(lab: Lab) -> None:
    """Prometheus's own check takes the text, and finds nothing to better in names of ours; Debezium's names have units
    that Prometheus would not have chosen."""
    lab.collection("orders").insert_one({})
    port = free_port()
    lab.with_options(snapshot__mode="initial", metrics__port=port)
    with lab.running() as running:
        running.wait("initial", SECONDS)
        _, text = at(port, "/metrics")
    said = check_metrics(text)
    assert not [line for line in said if "error while linting" in line or "parsing" in line]
    assert not [line for line in said if line.startswith("snapshotter_engine_")]


def test_the_expressions_of_the_docs_are_understood(tmp_path: Path) -> None:
    """By Prometheus's own check of rules."""
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    expressions = page.partition("```promql\n")[2].partition("```")[0].splitlines()
    rules = [{"alert": f"Number{number}", "expr": text} for number, text in enumerate(expressions)]
    assert len(rules) > 3
    assert check_rules({"groups": [{"name": "docs", "rules": rules}]}, tmp_path) == []


def test_the_dashboards_queries_are_promql(tmp_path: Path) -> None:
    """Each of `deploy/grafana`, with Grafana's variables filled in."""
    filled = [text.replace("$__rate_interval", "5m").replace("$name", ".*") for text in expressions()]
    rules = [{"alert": f"Number{number}", "expr": text} for number, text in enumerate(filled)]
    assert check_rules({"groups": [{"name": "dashboard", "rules": rules}]}, tmp_path) == []


def test_a_taken_port_keeps_an_engine_from_starting(lab: Lab) -> None:
    """A running engine has it: another one ends before it has touched anything, and says which option is about it."""
    port = free_port()
    lab.with_options(snapshot__mode="no_data", metrics__port=port)
    other = Lab(lab.uri, lab.client, lab.database, lab.folder / "other", lab.spark, dict(lab.options))
    with lab.running():
        with pytest.raises(ConfigurationError, match=f"metrics.port = {port}"):
            other.engine().start()
        assert not other.state.exists()
        other.folder.mkdir()
        ended = CliRunner().invoke(app, ["run", "-c", str(other.config_file())])
        assert ended.exit_code == EXIT_CONFIGURATION
        assert f"metrics.port = {port}" in ended.stderr
        assert not other.state.exists()
