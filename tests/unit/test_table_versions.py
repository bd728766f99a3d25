"""`snapshotter table show`: versions of a table as its own log tells them, of tables that engines have left."""

from __future__ import annotations

import json
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from snapshotter.landing.versions import version_of
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.earlier_states import DATA, NAME
from tests.support.shop_engine import invoke

TABLE = "earlier_states.orders"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the engine of an earlier version, beside the warehouse that it has left."""
    folder = tmp_path_factory.mktemp("left")
    with tarfile.open(DATA / "fc77270" / "idle.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    options = {
        "name": NAME,
        "mongodb.connection.string": "mongodb://localhost:1/",
        "delta.warehouse": str(folder / "warehouse"),
    }
    (folder / "c.json").write_text(json.dumps(options), encoding="utf-8")
    return folder / "c.json"


def shown(config: Path, *options: object) -> list[dict[str, Any]]:
    found = invoke("table", "show", "-c", config, TABLE, "--json", *options)
    assert found.exit_code == 0, found.output
    versions: list[dict[str, Any]] = json.loads(found.stdout)["versions"]
    return versions


def commits(config: Path) -> dict[int, dict[str, Any]]:
    """What the commits say, read with nothing of the product."""
    log = config.parent / "warehouse" / "state" / "earlier_states" / "orders" / "_delta_log"
    return {
        int(f.stem): json.loads(f.read_text().split("\n")[0])["commitInfo"] for f in log.glob("*[0-9].json")
    }


def test_a_version_says_when_it_landed_and_what_it_reaches(config: Path) -> None:
    """As the commit itself says: so newest first, and with nothing of its own where it lands nothing."""
    found, said = shown(config, "-n", 99), commits(config)
    assert [one["version"] for one in found] == sorted(said, reverse=True)
    for one in found:
        commit = said[one["version"]]
        assert datetime.fromisoformat(one["landed_at"]).timestamp() * 1_000 == commit["timestamp"]
        mark = json.loads(commit.get("userMetadata", "{}")).get("metadata")
        assert (one["position"] is None) == (mark is None)
        if mark is not None:
            assert one["position"] == "{t}.{i}".format(**mark["position"])
            assert datetime.fromisoformat(one["position_at"]).timestamp() == mark["position"]["t"]
            assert one["cluster_time"] == mark["position"]["t"] << 32 | mark["position"]["i"]
            assert (one["engine"], one["batch"]) == (NAME, mark["batch"])
    assert sum(one["inserted"] or 0 for one in found) - sum(one["deleted"] or 0 for one in found) == 299


def test_it_fits_a_terminal(config: Path) -> None:
    """Of 80 columns, with as many versions as were asked for."""
    found = invoke("table", "show", "-c", config, TABLE, "-n", 6)
    where, headings, *lines = found.stdout.splitlines()
    assert where.startswith(f"{TABLE} at /")
    assert max(map(len, [headings, *lines])) <= 80
    assert lines[4] == "     18  2026-11-26 01:50:33  1795657823.12    01:50:23  +2 ~7 -3"
    assert lines[5] == "     17  2026-11-26 01:50:29  ADD COLUMNS"


@pytest.mark.parametrize(
    ("position", "version"),
    [
        ("1795657823.12", 18),
        ("1795657823.11", 15),
        ("7712291624591556620", 18),
        ("2026-11-26T01:50:23", 18),
        ("2026-11-26T01:50:22+00:00", 15),
        ("2026-11-26T03:50:23+02:00", 18),
        ("2030-01-01", 22),
    ],
)
def test_a_version_is_found_by_its_position(config: Path, position: str, version: int) -> None:
    """The newest whose rows reach no further; of a time, its whole second counts."""
    assert [one["version"] for one in shown(config, "--position", position)] == [version]
    found = invoke("table", "show", "-c", config, TABLE, "--position", position)
    assert ("The next one, version" in found.stdout) == (version != 22)


@pytest.mark.parametrize(
    ("landed", "version"), [("2026-11-26T01:50:30Z", 17), ("2026-11-26 01:50:16.999", 11), ("2030-01-01", 22)]
)
def test_a_version_is_found_by_when_it_landed(config: Path, landed: str, version: int) -> None:
    """What a reader saw at that time."""
    assert [one["version"] for one in shown(config, "--landed", landed)] == [version]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((TABLE, "--position", "2001-01-01"), 2, "reaches no further than 2001-01-01; the oldest landing"),
        ((TABLE, "--landed", "2001-01-01"), 2, "had landed by 2001-01-01 00:00:00 UTC"),
        ((TABLE, "--position", "now"), 2, "must be a time in the stream"),
        ((TABLE, "--position", "then"), 2, "is no position"),
        ((TABLE, "--landed", "then"), 2, "is no ISO 8601 time"),
        ((TABLE, "--landed", "2030-01-01", "--position", "1.1"), 2, "does not go with --position"),
        (("earlier_states.order",), 2, "there is no table of earlier_states.order at"),
        (("orders",), 2, "orders"),
    ],
)
def test_what_is_not_there_is_said(config: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    """With what there is instead, where that helps."""
    found = invoke("table", "show", "-c", config, *arguments)
    assert found.exit_code == code, found.output
    assert message in " ".join(found.stderr.replace("│", " ").split())


def test_a_version_of_a_load_says_so() -> None:
    """Its rows were not all there yet; so it is not taken for the collection as of its position."""
    said = {
        "position": {"t": 9, "i": 1},
        "start": {"t": 8, "i": 0},
        "generation": 0,
        "scope": "s",
        "engine": "e",
    }
    mark = {"engine": "snapshotter", "landing": "x", "app_id": "snapshotter:e:1", "batch": 3}

    def version(unsettled: list[str] | None) -> Any:
        text = json.dumps({**mark, "metadata": {**said, "unsettled": unsettled}})
        commit = {"operation": "WRITE", "operationMetrics": {"numOutputRows": "5"}, "userMetadata": text}
        return version_of(4, json.dumps({"commitInfo": commit}), Namespace("shop", "orders"))

    assert version(["shop.orders"]).loading
    assert version(None).loading
    assert not version(["shop.people"]).loading
    assert version([]).position == ClusterTime(9, 1)
    assert (version([]).engine, version([]).at, version([]).landed.inserted) == ("e", None, 5)
