"""The wheel and the sdist, as somebody has them without a checkout: built from the sources alone, and installed into an
environment that has nothing else."""

from __future__ import annotations

import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.distribution import SOURCES, build, run
from tests.support.sources import PACKAGES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # pip builds and installs, from the package registry
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SCRIPT = "snapshotter/spark_python.sh"
_ALL_MODULES = """
import importlib, pkgutil
import signals, snapshotter, streaming
of_extras = {"snapshotter.verification.by_duckdb": "duckdb"}
for package in (signals, snapshotter, streaming):
    assert "site-packages" in package.__file__, package.__file__
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:
            assert missing.name == of_extras.pop(module.name, None), (module.name, missing.name)
assert not of_extras, of_extras
"""
_CONFIGURATION = """
"name" = "shop"
"mongodb.connection.string" = "mongodb://localhost:27017/?replicaSet=rs0"
"delta.warehouse" = "warehouse"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both."""
    return build(tmp_path_factory.mktemp("distribution"))


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel, and what it says it needs, in the versions that are tested."""
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    programs = folder / "venv" / "bin"
    (wheel,) = built.glob("*.whl")
    run(
        programs / "python",
        "-m",
        "pip",
        "install",
        "-q",
        "-c",
        ROOT / "constraints.txt",
        wheel,
        folder=folder,
    )
    return programs


def test_both_hold_all_that_is_ours(built: Path) -> None:
    """Each module, each file of the page, and the script that stands for Python, as a program; the sdist also what it
    takes to install and to deploy it; and no tests."""
    ours = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    ours |= {str(path.relative_to(ROOT)) for path in (ROOT / "snapshotter" / "page" / "static").iterdir()}
    ours.add(SCRIPT)
    wheel, sdist = built / f"snapshotter-{VERSION}-py3-none-any.whl", built / f"snapshotter-{VERSION}.tar.gz"
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if ".dist-info/" not in name}
        assert (packed.getinfo(SCRIPT).external_attr >> 16) & 0o111 == 0o111
    assert held == ours
    with tarfile.open(sdist) as packed_sources:
        names = {name.partition("/")[2] for name in packed_sources.getnames()}
    assert names >= ours | set(SOURCES) | {"deploy/Containerfile", "deploy/entry.py"}


def test_it_works_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    """The command says its version and its help and reads a configuration, and every module can be imported but those
    that are an extra's: nothing that is only there for development is needed for that."""
    assert run(installed / "snapshotter", "--version", folder=tmp_path) == f"snapshotter {VERSION}\n"
    assert "Usage: snapshotter config" in run(installed / "snapshotter", "config", "--help", folder=tmp_path)
    (tmp_path / "shop.toml").write_text(_CONFIGURATION)
    told = run(installed / "snapshotter", "config", "-c", "shop.toml", "--offline", folder=tmp_path)
    assert told.startswith("name = shop\n")
    run(installed / "python", "-c", "import snapshotter, signals, streaming", folder=tmp_path)
    run(installed / "python", "-c", _ALL_MODULES, folder=tmp_path)
    run(installed / "python", "-m", "pip", "check", folder=tmp_path)
