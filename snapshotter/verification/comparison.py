"""What is compared, and how: keys and contents of two sides, in one query that Spark and DuckDB answer alike.

A *content* is the hash of a document's canonical bytes, so that hashes alone cross the network and are kept; or the
bytes themselves, asked for by key, for the few documents that are to be shown. A key is in order when both sides have
it exactly once, with equal contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from snapshotter.verification.canonical_diff import FieldDifference, differences
from streaming.column_names import KEY

RECHECKED_MAX = 10_000
"""So many differing keys are looked at again. Where there are more, changes on the way are not the reason."""

MISSING, EXTRA, DIFFERENT, REPEATED = "missing", "extra", "different", "repeated"
_KINDS = MISSING, EXTRA, DIFFERENT, REPEATED

CONTENTS = pa.schema([pa.field(KEY, pa.string()), pa.field("content", pa.binary())])

JUDGED = f"""
SELECT {KEY}, sources, tables, CASE
    WHEN sources > 1 OR tables > 1 THEN '{REPEATED}'
    WHEN tables = 0 THEN '{MISSING}'
    WHEN sources = 0 THEN '{EXTRA}'
    WHEN document <> entry THEN '{DIFFERENT}'
END AS kind
FROM (
    SELECT {KEY}, count(document) AS sources, count(entry) AS tables, max(document) AS document, max(entry) AS entry
    FROM (
        SELECT {KEY}, content AS document, CAST(NULL AS BINARY) AS entry FROM {{collection}}
        UNION ALL
        SELECT {KEY}, CAST(NULL AS BINARY) AS document, content AS entry FROM {{table}}
    ) AS sides
    GROUP BY {KEY}
) AS grouped
"""
"""A row for each key of either side: how often each has it, and in ``kind`` what is wrong with it (null: nothing).
``collection`` and ``table`` are relations of `CONTENTS`."""

FIGURES = {
    "documents": "sum(sources)",
    "rows": "sum(tables)",
    **{kind: f"sum(CAST(kind = '{kind}' AS BIGINT))" for kind in _KINDS},
}
"""What is counted of `JUDGED`, by its name in `VerifyResult`."""

Contents = Mapping[str, list[bytes]]


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key that is not in order. ``kind``: missing in the table, extra in it, different, or repeated.

    ``fields`` are the paths that differ, of a key that is different.
    """

    key: str
    kind: str
    fields: tuple[FieldDifference, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.kind}: {self.key}", *(f"    {item}" for item in self.fields)])


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was compared, and what was found. ``str()`` is a report for people.

    ``missing``, ``extra``, ``different`` and ``repeated`` count keys: in the collection only, in the table
    only, on both sides with unequal contents, more than once on a side. ``differing`` names them (at most
    ``RECHECKED_MAX``); ``examples`` are the first of them with what differs.
    """

    documents: int
    rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    repeated: int = 0
    differing: tuple[str, ...] = ()
    examples: tuple[KeyDifference, ...] = field(default=())

    @property
    def equal(self) -> bool:
        """Whether the table is the collection."""
        return not (self.missing or self.extra or self.different or self.repeated)

    def __str__(self) -> str:
        lines = [f"{self.documents:,} documents, {self.rows:,} rows"]
        if not self.equal:
            counts = {kind: getattr(self, kind) for kind in _KINDS}
            lines.append(", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count))
        return "\n".join([*lines, *map(str, self.examples)])


class Sides(Protocol):
    """A collection and its table, read anew each time they are asked for. Conformance:
    `tests/conformance/test_verify_readers.py`."""

    def compare(self, keys: frozenset[str] | None) -> VerifyResult:
        """All documents and rows, or those with these ``keys``: the counts, and which keys are not in order."""

    def whole(self, keys: frozenset[str]) -> tuple[Contents, Contents]:
        """The canonical documents with these keys: the collection's, and the table's."""


def found(counts: Mapping[str, int | None], names: Iterable[str]) -> VerifyResult:
    """What `FIGURES` came to (None: there was no key), and the keys that are not in order."""
    figures: dict[str, Any] = {figure: int(count or 0) for figure, count in counts.items()}
    return VerifyResult(**figures, differing=tuple(sorted(names))[:RECHECKED_MAX])


def by_key(contents: Iterable[tuple[str, bytes]]) -> Contents:
    """What each key has, in the order in which it comes."""
    of_key: dict[str, list[bytes]] = {}
    for key, content in contents:
        of_key.setdefault(key, []).append(content)
    return of_key


def examples(sides: Sides, keys: tuple[str, ...]) -> tuple[KeyDifference, ...]:
    """What exactly differs at these keys. They are read once more, so one may be in order by now."""
    if not keys:
        return ()
    documents, rows = sides.whole(frozenset(keys))
    return tuple(_difference(key, documents.get(key, []), rows.get(key, [])) for key in keys)


def _difference(key: str, documents: list[bytes], rows: list[bytes]) -> KeyDifference:
    if len(documents) > 1 or len(rows) > 1:
        return KeyDifference(key, REPEATED)
    if not rows:
        return KeyDifference(key, MISSING)
    if not documents:
        return KeyDifference(key, EXTRA)
    return KeyDifference(key, DIFFERENT, tuple(differences(documents[0], rows[0])))
