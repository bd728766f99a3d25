"""Whether a table can be read without Spark, by what the log says of its newest version.

Beside each commit Delta keeps a checksum file, which says of the version what it has: bytes, properties, columns, and
the features that a reader must know. Where the newest version has none, somebody else's writer has made it (or it was
restored): then nothing is guessed. Tables on this machine's disks alone are looked at: of object stores Spark knows
more than we are told.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapshotter.state.storages import local_path, needs_spark
from streaming.column_names import DELETED
from streaming.json_text import from_text

BYTES_MAX = 64 * 2**20
DOCUMENTS_MAX = 500_000
"""Bounds of memory and of time: one process reads both sides, where Spark has all cores. From where on Spark is quicker
is an estimate; at 2,000 documents it takes ten times as long (bench/README.md)."""

UNDERSTOOD = frozenset({"deletionVectors"})
"""The features, by Delta's names, of tables that an engine makes, and that every reader is tried with. What others have
(column mapping, wider types, variants) is left to Delta's own reader."""

HOW = "pip install 'snapshotter[verify]'"

_CHECKSUM_SECONDS = 1.0
"""Delta writes a version's checksum behind its commit, some milliseconds later."""
_LOOK_SECONDS = 0.02
_OF_VERSION = re.compile(r"(\d{20})\.(?:json$|checkpoint\.)")
_MAPPING, _NAMED_FEATURES = 2, 3
"""Versions of Delta's protocol for readers: the first that knows column mapping, and the one that names features."""


class NeedsSpark(Exception):
    """Only Spark can compare a table with its collection; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class SmallTable:
    """The newest version of a table: where it lies, its number, the properties, and whether rows may be ``marked`` as
    deleted."""

    folder: Path
    version: int
    properties: Mapping[str, str]
    marked: bool


def look(location: str) -> SmallTable | None:
    """The table at ``location``; None where there is none. Raises `NeedsSpark` where it is not one to be read here."""
    if needs_spark(location):
        raise NeedsSpark("it lies in no folder of this machine")
    folder = local_path(location).absolute()
    if "%" in str(folder):
        raise NeedsSpark("its path has a percent sign, which others take for part of an address")
    log = folder / "_delta_log"
    # Spark may take a path for one in another file system: only where its tables lie here, there is none.
    if not log.is_dir() and not folder.parent.parent.is_dir():
        raise NeedsSpark(f"there is no folder {folder.parent.parent} on this machine")
    version = _newest(log)
    if version is None:
        return None
    said = _checksum(log, version)
    try:
        if (why := too_much(said)) is not None:
            raise NeedsSpark(why)
        return _table(folder, version, said)
    except (KeyError, TypeError, ValueError) as error:
        raise NeedsSpark(f"what the log says of version {version} cannot be read: {error!r}") from error


def too_much(said: Mapping[str, Any]) -> str | None:
    """Why only Spark reads a table of which a checksum file has ``said`` this; None where others can."""
    strange = _features(said["protocol"]) - UNDERSTOOD
    if strange:
        return f"it has what is left to Delta's own reader: {', '.join(sorted(strange))}"
    if (size := int(said["tableSizeBytes"])) > BYTES_MAX:
        return f"it has {size >> 20} MB, and Spark is quicker from {BYTES_MAX >> 20} MB on"
    return None


def _features(protocol: Mapping[str, Any]) -> frozenset[str]:
    version = int(protocol["minReaderVersion"])
    if version < _MAPPING:
        return frozenset()
    if version == _MAPPING:
        return frozenset({"columnMapping"})
    if version > _NAMED_FEATURES:
        return frozenset({f"version {version} of its protocol"})
    return frozenset(protocol["readerFeatures"])


def _table(folder: Path, version: int, said: Mapping[str, Any]) -> SmallTable:
    metadata = said["metadata"]
    columns = from_text(metadata["schemaString"])["fields"]
    marked = any(column["name"] == DELETED and column["type"] == "boolean" for column in columns)
    return SmallTable(folder, version, metadata["configuration"], marked)


def _newest(log: Path) -> int | None:
    if not log.is_dir():
        return None
    found = (_OF_VERSION.match(path.name) for path in log.iterdir())
    return max((int(name[1]) for name in found if name), default=None)


def _checksum(log: Path, version: int) -> Mapping[str, Any]:
    """What the checksum file says. Delta writes it under another name first, so it is whole."""
    file, deadline = log / f"{version:020d}.crc", time.monotonic() + _CHECKSUM_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            raise NeedsSpark(f"version {version} has no checksum, as other writers leave it")
        time.sleep(_LOOK_SECONDS)
    try:
        said = from_text(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NeedsSpark(f"the checksum of version {version} is no JSON: {error}") from error
    if not isinstance(said, Mapping):
        raise NeedsSpark(f"the checksum of version {version} is no JSON object")
    return said
