"""A real Prometheus for tests: where its programs come from, and one that scrapes a single address.

1. `SNAPSHOTTER_TEST_PROMETHEUS`: the folder of `prometheus` and `promtool`;
2. both on PATH;
3. Debian's package, downloaded and unpacked into a folder that is kept (`tests.support.debian`).

Where there is none a test is skipped, with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from snapshotter.testing import processes
from snapshotter.testing.processes import GuardedProcess, wait_until
from tests.support.debian import Unavailable, unpacked

FOLDER_VARIABLE = "SNAPSHOTTER_TEST_PROMETHEUS"
PROGRAMS = ("prometheus", "promtool")
_PACKAGE = "prometheus"
_STARTS = 3


def prometheus_folder() -> Path:
    """The folder of the two programs. Skips the test that asks where they can't be had."""
    try:
        return _folder()
    except Unavailable as error:
        pytest.skip(f"no Prometheus: {error}; {FOLDER_VARIABLE} may name the folder of one")


def _folder() -> Path:
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given)
    found = [shutil.which(program) for program in PROGRAMS]
    if found[0] and found[1]:
        return Path(found[0]).parent
    return unpacked(_PACKAGE, _PACKAGE) / "usr" / "bin"


def check_metrics(text: str) -> list[str]:
    """What `promtool check metrics` objects to; empty for a text that Prometheus would take, in its best form."""
    program = prometheus_folder() / "promtool"
    done = subprocess.run(
        [program, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    return (done.stdout + done.stderr).splitlines()


def check_rules(rules: dict[str, Any], folder: Path) -> list[str]:
    """What `promtool check rules` objects to in these rules; ``folder`` is where they are put for it."""
    file = folder / "rules.yml"
    file.write_text(json.dumps(rules))
    program = prometheus_folder() / "promtool"
    done = subprocess.run([program, "check", "rules", file], capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


@dataclass(slots=True)
class Prometheus:
    """A server that scrapes one address each second."""

    port: int

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression gives now: each with its labels (``metric``) and its ``value``."""
        found = self._get("query", query=expression)["result"]
        return [{"metric": one["metric"], "value": float(one["value"][1])} for one in found]

    def value(self, expression: str) -> float | None:
        """The value of the only series of an expression; None where there is none."""
        found = self.query(expression)
        assert len(found) <= 1, f"{expression}: {found}"
        return found[0]["value"] if found else None

    def target(self) -> dict[str, Any]:
        """What it says of the address: ``health``, ``lastError``."""
        (target,) = self._get("targets")["activeTargets"]
        return dict(target)

    def types(self) -> dict[str, str]:
        """The type of each metric, as it was told."""
        return {name: told[0]["type"] for name, told in self._get("metadata").items()}

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, what: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{query}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())["data"]


@contextmanager
def scraping(address: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``address`` (host:port), until the end of the block."""
    program = prometheus_folder() / "prometheus"
    folder = processes.temporary_folder("prometheus")
    job = {"job_name": "snapshotter", "static_configs": [{"targets": [address]}]}
    often = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    (folder / "prometheus.yml").write_text(json.dumps({"global": often, "scrape_configs": [job]}))
    process, server = _started(program, folder)
    try:
        yield server
    finally:
        process.stop()
        processes.remove_folder(folder)


def _started(program: Path, folder: Path) -> tuple[GuardedProcess, Prometheus]:
    for _ in range(_STARTS):  # a port that was free may be taken by the time it is opened
        server = Prometheus(processes.free_port())
        process = GuardedProcess(
            [
                str(program),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{server.port}",
            ],
            folder=folder / "scratch",
            output=folder / "output.log",
            name="Prometheus",
        )
        if _comes_up(server, process):
            return process, server
    raise AssertionError(f"Prometheus does not start\n{process.tail()}")


def _comes_up(server: Prometheus, process: GuardedProcess) -> bool:
    return (
        wait_until(
            lambda: "up" if server.ready() else None if process.alive else "dead", "Prometheus to be ready"
        )
        == "up"
    )
