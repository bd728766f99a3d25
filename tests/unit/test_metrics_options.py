"""Options of metrics: the address, and tags as labels."""

from __future__ import annotations

import pytest

from snapshotter.configuration.metrics_config import OWN_LABELS, MetricsConfig, tags_of
from snapshotter.engine.assembly import engine_config
from snapshotter.metrics.catalogue import CATALOGUE
from tests.unit.test_settings import made, problems


def test_without_a_port_there_is_no_endpoint() -> None:
    """And so no other option of metrics has an effect, which is said."""
    assert engine_config(made()).metrics.port is None
    said = made(metrics_host="0.0.0.0", custom_metric_tags="env=test").warnings
    assert [warning.partition(" ")[0] for warning in said] == ["metrics.host", "custom.metric.tags"]


def test_the_address_and_the_labels_reach_the_engine() -> None:
    """By default metrics.port is opened for this machine alone; every series says whose it is."""
    options = {"metrics_port": "9404", "topic_prefix": "shops", "custom_metric_tags": "env=test, bu=bigdata"}
    labels = {"name": "shop", "server": "shops", "env": "test", "bu": "bigdata"}
    assert engine_config(made(**options)).metrics == MetricsConfig("127.0.0.1", 9404, labels)
    assert engine_config(made(**options, metrics_host="::")).metrics.host == "::"


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", {}),
        ("k1=v1,k2=v2", {"k1": "v1", "k2": "v2"}),
        (
            "database=salesdb-streaming,table=inventory",
            {"database": "salesdb-streaming", "table": "inventory"},
        ),
        ("region=eu:west", {"region": "eu:west"}),
        ("data-centre=a,line.no=7,1st=x,", {"data_centre": "a", "line_no": "7", "_1st": "x"}),
        ("empty=", {"empty": ""}),
    ],
)
def test_tags_become_labels(text: str, labels: dict[str, str]) -> None:
    """Debezium's examples, and keys that a label's name cannot have as they are."""
    assert tags_of(text) == labels


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("foo", "'foo' is none"),
        ("k1=a=b", "'k1=a=b' is none"),
        ("=v", "'=v' is none"),
        ("region:eu=prod", "no tag's key may hold ':'"),
        ("a*b=v", "no tag's key may hold '*'"),
        ("a?b=v", "no tag's key may hold '?'"),
        ("a-b=1,a.b=2", "another one that makes the same label a_b"),
        ("server=x", "metrics have that label already"),
        ("__x=1", "labels that begin with __"),
    ],
)
def test_what_is_no_tag_is_refused(text: str, why: str) -> None:
    """As Debezium refuses it; and a label that is taken."""
    assert why in problems({"custom.metric.tags": text})["custom.metric.tags"]


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_what_is_no_port_is_refused(port: str) -> None:
    """metrics.port is a number from 1 to 65535."""
    assert set(problems({"metrics.port": port})) == {"metrics.port"}


def test_the_labels_of_figures_are_known_to_the_options() -> None:
    """So that no tag can take the place of one."""
    assert {figure.label for figure in CATALOGUE} - {""} <= OWN_LABELS
