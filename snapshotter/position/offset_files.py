"""The files in which other products keep their positions, or in which one gets them out.

    offset.dat                    Kafka Connect's FileOffsetBackingStore (`snapshotter.position.java_maps`)
    JSON, or a JSON value a line  Connect's offset topic: the value alone, {"key": ..., "value": ...}, what kcat -J
                                  prints, or GET /connectors/<name>/offsets; rows of the JDBC store's table
    key TAB value, a line each    the console consumer with print.key=true
    CSV with a header             rows of the JDBC store's table (offset_key, offset_val)
    a folder                      a checkpoint of Structured Streaming (offsets/, commits/)

A key that comes again has moved on: its last value counts, and none where that is null.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapshotter.position.java_maps import is_java, parse_map
from snapshotter.position.stored import Stored, parse_stored

_KEYS = ("offset_key", "key", "partition")
_VALUES = ("offset_val", "value", "payload", "offset")
_COLUMNS = {"offset_key", "offset_val"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored value, and the key that it is stored under: the name of a connector and its source, as JSON."""

    key: Any
    value: Any

    @property
    def label(self) -> str:
        """The key as text."""
        return json.dumps(self.key, sort_keys=True) if self.key is not None else ""

    def names(self, name: str) -> bool:
        """Whether the key names this connector, or this source."""
        parts = self.key if isinstance(self.key, list) else [self.key]
        values = [v for part in parts for v in (part.values() if isinstance(part, Mapping) else [part])]
        return name in values


def read_stored(path: Path, names: Iterable[str] = (), entry: str | None = None) -> Stored:
    """The position in the file or folder at ``path``. Of several that are stored there it is the one whose key is one
    of ``names``, or whose key holds the text ``entry``. Raises ValueError, which names what is wrong, or what there is
    to choose from."""
    try:
        found = _of_folder(path) if path.is_dir() else entries(path.read_bytes())
    except OSError as error:
        raise ValueError(f"cannot be read: {error}") from error
    return parse_stored(_chosen(found, tuple(names), entry).value)


def entries(data: bytes) -> list[Entry]:
    """What a file's bytes hold, each key once. Raises ValueError for a file that is none of the known ones."""
    if is_java(data):
        pairs = [(key, value) for key, value in parse_map(data).items()]
        found = [Entry(_json(k.decode("utf-8")), _json((v or b"null").decode("utf-8"))) for k, v in pairs]
    else:
        text = data.decode("utf-8")
        found = [Entry(_plain(e.key), _plain(e.value)) for e in _of_text(text)]
    newest = {e.label: e for e in found}
    return [e for e in newest.values() if e.value is not None]


def _chosen(found: list[Entry], names: tuple[str, ...], entry: str | None) -> Entry:
    if not found:
        raise ValueError("it holds no position")
    if entry is not None:
        fitting = [e for e in found if entry in e.label]
    else:
        fitting = found if len(found) == 1 else [e for e in found if any(map(e.names, names))]
    if len(fitting) != 1:
        there = ", ".join(e.label for e in found[:20])
        raise ValueError(
            f"it holds {len(found)} positions, {len(fitting)} fit: choose by --entry TEXT one of {there}"
        )
    return fitting[0]


def _of_text(text: str) -> Iterator[Entry]:
    """Entries with their key and value as they stand, perhaps still as JSON in text."""
    if not text.strip():
        return
    header = text.splitlines()[0].lower().replace('"', "")
    if set(header.split(",")) >= _COLUMNS:
        for row in csv.DictReader(io.StringIO(text)):
            yield _row({name.lower(): value for name, value in row.items() if isinstance(name, str)})
        return
    try:
        values = [json.loads(text)]
    except ValueError:
        yield from (_of_line(line) for line in text.splitlines() if line.strip())
        return
    yield from _of_json(values)


def _of_line(line: str) -> Entry:
    if "\t" in line and not line.startswith("{"):
        key, _, value = line.partition("\t")
        return Entry(key, value)
    (found,) = list(_of_json([_json(line)])) or [Entry(None, None)]
    return found


def _of_json(values: Iterable[Any]) -> Iterator[Entry]:
    for value in values:
        if isinstance(value, list):
            yield from _of_json(value)
        elif isinstance(value, Mapping) and isinstance(value.get("offsets"), list):
            yield from _of_json(value["offsets"])
        elif isinstance(value, Mapping) and _is_row(value):
            yield _row({str(name).lower(): part for name, part in value.items()})
        else:
            yield Entry(None, value)


def _is_row(value: Mapping[str, Any]) -> bool:
    names = {str(name).lower() for name in value}
    return any(key in names for key in _KEYS) and any(name in names for name in _VALUES)


def _row(row: Mapping[str, Any]) -> Entry:
    key = next(row[name] for name in _KEYS if name in row)
    return Entry(key, next(row[name] for name in _VALUES if name in row))


def _plain(value: Any) -> Any:
    """JSON in text read, and the envelope of a schema taken away."""
    found = _json(value) if isinstance(value, str) else value
    if isinstance(found, Mapping) and found.keys() == {"schema", "payload"}:
        return found["payload"]
    return found


def _json(text: str) -> Any:
    try:
        return _plain(json.loads(text))
    except ValueError as error:
        raise ValueError(f"no JSON where a stored position was expected: {text[:80]!r}") from error


def _of_folder(path: Path) -> list[Entry]:
    """The end of the newest batch of a checkpoint that is committed: for each source of the query."""
    committed = _numbers(path / "commits")
    planned = [number for number in _numbers(path / "offsets") if number in committed]
    if not planned:
        raise ValueError(
            "a folder without offsets of a committed batch: it is no checkpoint of a streaming query"
        )
    version, *rest = (path / "offsets" / str(max(planned))).read_text(encoding="utf-8").splitlines()
    if version != "v1" or not rest:
        raise ValueError(f"offsets of a batch of Spark's format {version!r}, and v1 is known")
    sources = [(number, line) for number, line in enumerate(rest[1:]) if line.strip() not in ("", "-")]
    return [Entry(f"source {number}", _json(line)) for number, line in sources]


def _numbers(folder: Path) -> set[int]:
    return {int(p.name) for p in folder.iterdir() if p.name.isdecimal()} if folder.is_dir() else set()
