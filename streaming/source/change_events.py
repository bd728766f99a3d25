"""The rows of `mongodb-changes`: one a change event, in stream order, and a trailer.

| column | |
|---|---|
| kind | "event", "dead" (option `failures=rows`), or "trailer" for the last row of a batch (option `trailer=true`) |
| op | "c" insert, "u" update and replace, "d" delete; null for a drop or a rename of the collection |
| operation_type | the server's word; "oversized" for an event above 16 MB, which comes as an update without document |
| db, collection | where |
| _key | the identity and order of the document (`streaming.keys.keys`) |
| document_key | BSON of the documentKey |
| document | BSON of the full document; null when there is none (a delete; an update looked up in vain) |
| before | BSON of the pre-image, where `capture.mode` asks for it and MongoDB has it |
| update_description | BSON |
| cluster_time | `ClusterTime.to_int()` |
| ord | order in the batch: the number of the split, shifted by SPLIT_BITS, and the position in the split from 0 |
| wall_time | when the server applied it; null before MongoDB 6.0 |
| lsid, txn_number | the transaction: BSON of the session's id, and its number |
| renamed_to | "database.collection": the new name, in a rename |
| moves | true for an update of the shard key of its document: a row may be left under the old one. Else null |
| trailer | JSON: in the trailer what `RowBuilder.trailer` says, in a dead row why (`streaming.decode.dead_letters`) |

A batch that is read in several splits has a trailer for each: that of ``split`` of ``splits``.

Under `columns=state` before and update_description stay null, the latter unless `details` asks for it. So do lsid and
txn_number, unless `provide.transaction.metadata` or `details` asks for them: then the trailer's ``transactional``
counts the events that have them.
Under `events=latest` the rows are in no order, and ``ord`` gives it.

A dead row has no op, and of the rest what could be found out: its document is what of the bytes may be kept. It is no
event of its collection. Without `failures=rows` what cannot be processed is raised.

Rows are built column by column and handed over as Arrow batches, bounded by bytes and rows: a batch of the
stream may hold a million events, but never all of them at once.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from streaming.bson.elements import MalformedBson, check
from streaming.bson.raw_fields import UnkeyableId, elements
from streaming.decode.dead_letters import OF_ALL, OVERSIZED_EVENT, Where, dead_letter
from streaming.fields.document_rules import DocumentRules
from streaming.fields.update_rules import update
from streaming.json_text import to_text
from streaming.keys.keys import event_key, key_of_document
from streaming.keys.shard_keys import touches
from streaming.positions import ClusterTime
from streaming.source.newest_events import Numbered
from streaming.source.places import OPERATIONS, Place, Places
from streaming.source.raw_events import (
    DAMAGED,
    ERROR,
    OVERSIZED,
    RAW,
    Event,
    Fields,
    integer_of,
)
from streaming.source.schema import SCHEMA

ARROW_SCHEMA: pa.Schema = to_arrow_schema(SCHEMA, timezone="UTC")
"""What PySpark demands of the first RecordBatch, to the letter."""

ROWS_MAX = 10_000
BYTES_MAX = 4 << 20

_DOCUMENTS = frozenset((b"fullDocument", b"fullDocumentBeforeChange", b"updateDescription"))
_EVERY = (
    *("ord", "op", "operation_type", "db", "collection", "_key"),
    *("document_key", "document", "cluster_time", "wall_time", "renamed_to"),
)
"""The columns that all rows have something for."""
_Row = tuple[str | None, str, str | None, Fields, str | None, bool]
"""Of a row: op, the server's word, key, fields under the rules, the new name in a rename, whether its shard key
changes."""


class RowBuilder:
    """Turns events into Arrow batches of ``ARROW_SCHEMA``, numbers and counts them."""

    def __init__(
        self,
        places: Places,
        wide: bool = True,
        transactions: bool = False,
        *,
        raises: bool = True,
        updates: bool = False,
    ) -> None:
        """``places`` says of which collections events become rows, and counts them; not ``wide`` is ``columns=state``.
        ``transactions``: fill lsid and txn_number, which ``wide`` does anyway. ``raises``: an event that cannot be
        processed is an error, and no row. ``updates``: fill update_description, which ``wide`` does anyway."""
        self.looks_up = False
        """Whether the documents of updates are looked up."""
        self._raises = raises
        self._updates = updates or wide
        self._transactional = 0
        self._transactions = transactions or wide
        self._wide = wide
        self._places = places
        self._clear()

    def numbered(self, events: Iterable[Event]) -> Iterator[Numbered]:
        """Those of captured collections, counted, each with its place in the stream."""
        places = self._places
        for event in events:
            operation, _, _, fields = event
            raw = fields.get(b"ns")
            place = places.at(raw)
            if operation != DAMAGED or raw is not None:
                captured = place.captured
                if operation == b"rename":
                    captured = places.at(fields[b"to"]).captured or captured
                if not captured:
                    continue
                place.operations[operation] += 1
                if self._transactions and b"txnNumber" in fields:
                    self._transactional += 1
            number = places.number
            places.number = number + 1
            yield number, event

    def stands_alone(self, event: Event) -> bool:
        """Whether no event may take its place, or it that of another one: it may have given its document another key,
        or may land nothing."""
        place = self._places.at(event[3].get(b"ns"))
        return (place.sharded and _may_rekey(event)) or (
            place.rules is not None and _may_fail(event, place.rules)
        )

    def add(self, events: Iterable[Numbered]) -> Iterator[pa.RecordBatch]:
        """Make rows of events; gives a batch whenever one is full."""
        for number, event in events:
            self._append(number, event)
            if len(self._rows) >= ROWS_MAX or self._size >= BYTES_MAX:
                yield self._flush()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The rows left over, which did not fill a batch."""
        if self._rows:
            yield self._flush()

    def trailer(self, end: ClusterTime, token: bytes | None, splits: int = 1) -> pa.RecordBatch:
        """The last row: how far the split reached, and what was in it: ``{"end", "token", "events", "bytes",
        "namespaces", "operations", "sizes", "transactional", "split", "splits"}``. ``token`` is a raw resume token.
        Events are counted as they came (in all, in ``namespaces`` by namespace, in ``operations`` by namespace and
        ``op``), bytes (in all, and in ``sizes`` by namespace) as they left in rows."""
        places = self._places
        content = {
            "end": end.to_json(),
            "token": None if token is None else base64.b64encode(token).decode(),
            "events": places.events,
            "bytes": places.size,
            "namespaces": places.counts(),
            "operations": places.operations(),
            "sizes": places.sizes(),
            "transactional": self._transactional,
            "split": places.split,
            "splits": splits,
        }
        row = {"kind": "trailer", "ord": places.number, "trailer": to_text(content)}
        return pa.RecordBatch.from_pylist([row], schema=ARROW_SCHEMA)

    def _append(self, number: int, event: Event) -> None:
        operation, _, _, fields = event
        place = self._places.at(fields.get(b"ns"))
        try:
            row = self._row(operation, fields, place.sharded, place.rules)
        except OF_ALL:
            raise
        except Exception as error:
            if self._raises:
                raise
            row = self._dead_row(operation, fields, place.rules, error)
        self._put(number, event, place, row)

    def _row(self, operation: bytes, fields: Fields, sharded: bool, rules: DocumentRules | None) -> _Row:
        """What an event becomes. Raises what makes it impossible."""
        if operation == DAMAGED:
            raise MalformedBson(fields[ERROR].decode())
        # MongoDB's own updates always say what has changed.
        bare = self._wide and operation == b"update" and b"updateDescription" not in fields
        op, word = ("u", OVERSIZED_EVENT) if bare or OVERSIZED in fields else OPERATIONS[operation]
        ruled = fields if rules is None else _ruled(fields, rules)
        if self._wide and not self._raises:
            # Who tells events writes all of them, and would meet what is damaged there.
            for name in _DOCUMENTS.intersection(ruled):
                check(ruled[name])
        elif self._updates and not self._raises and b"updateDescription" in ruled:
            check(ruled[b"updateDescription"])
        key = fields.get(b"documentKey")
        text = None if key is None else event_key(key) if sharded else key_of_document(key)
        renamed_to = None
        if operation == b"rename":
            renamed_to = self._places.at(fields[b"to"]).name
        moved = sharded and operation == b"update" and _moves(fields)
        return op, word, text, ruled, renamed_to, moved

    def _dead_row(
        self, operation: bytes, fields: Fields, rules: DocumentRules | None, error: Exception
    ) -> _Row:
        """What an event becomes that cannot be processed because of this ``error``."""
        raw, key = fields.get(RAW, fields.get(b"fullDocument")), fields.get(b"documentKey")
        found = Where.LOOKUP if operation == b"update" and self.looks_up else Where.STREAM
        letter = dead_letter(found, error, raw, rules, known=operation != DAMAGED)
        self._dead[len(self._rows)] = replace(letter, raw=None).to_text()
        kept = {b"documentKey": key, b"fullDocument": letter.raw, b"wallTime": fields.get(b"wallTime")}
        try:
            text = None if key is None else key_of_document(key)
        except UnkeyableId:
            text = None
        known = {name: value for name, value in kept.items() if value is not None}
        word = operation if operation != DAMAGED else fields.get(b"operationType", b"")[4:-1] or DAMAGED
        return None, word.decode(errors="replace"), text, known, None, False

    def _put(self, number: int, event: Event, place: Place, row: _Row) -> None:
        _, time, size, fields = event
        op, word, key, ruled, renamed_to, moved = row
        get, wall = ruled.get, ruled.get(b"wallTime")
        applied = None if wall is None else integer_of(wall) * 1000
        where = place.database, place.collection
        said = get(b"documentKey"), get(b"fullDocument"), time, applied
        self._rows.append((number, op, word, *where, key, *said, renamed_to))
        if self._wide:
            self._before.append(get(b"fullDocumentBeforeChange"))
        if self._updates:
            self._update.append(get(b"updateDescription"))
        if moved:
            self._moves[len(self._rows) - 1] = True
        if self._transactions:
            txn = fields.get(b"txnNumber")
            self._lsid.append(fields.get(b"lsid"))
            self._txn.append(None if txn is None else integer_of(txn))
        place.size += size
        self._size += size

    def _flush(self) -> pa.RecordBatch:
        rows = len(self._rows)
        columns = {
            **dict(zip(_EVERY, zip(*self._rows, strict=True), strict=True)),
            "kind": pa.repeat("event", rows) if not self._dead else self._kinds(rows),
            "before": self._before,
            "update_description": self._update,
            "lsid": self._lsid,
            "txn_number": self._txn,
            "moves": self._moves and [*map(self._moves.get, range(rows))],
            "trailer": self._dead and [*map(self._dead.get, range(rows))],
        }
        arrays = [_array(columns.get(field.name), field.type, rows) for field in ARROW_SCHEMA]
        batch = pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
        self._clear()
        return batch

    def _kinds(self, rows: int) -> list[str]:
        return ["dead" if row in self._dead else "event" for row in range(rows)]

    def _clear(self) -> None:
        self._size = 0
        self._rows: list[tuple[object, ...]] = []
        self._before: list[bytes | None] = []
        self._update: list[bytes | None] = []
        self._moves: dict[int, bool] = {}
        self._dead: dict[int, str] = {}
        self._lsid: list[bytes | None] = []
        self._txn: list[int | None] = []


def _ruled(fields: Fields, rules: DocumentRules) -> Fields:
    """The fields of an event under the rules of its collection."""
    ruled = dict(fields)
    for name in (b"fullDocument", b"fullDocumentBeforeChange"):
        if name in ruled:
            ruled[name] = rules.document(ruled[name])
    if b"updateDescription" in ruled:
        ruled[b"updateDescription"] = update(rules, ruled[b"updateDescription"])
    return ruled


def _may_rekey(event: Event) -> bool:
    """Whether an event of a sharded collection may have given its document another key, so that a row is left under the
    old one: an update that changes the shard key, or any replacement."""
    operation, _, _, fields = event
    return operation == b"replace" or (operation == b"update" and _moves(fields))


def _may_fail(event: Event, rules: DocumentRules) -> bool:
    """Whether the rules about its document cannot be carried out, so that it lands nothing."""
    if not rules.renames:
        return False
    try:
        _ruled(event[3], rules)
    except Exception:  # noqa: BLE001 - met again, and told, where its row is made
        return True
    return False


def _moves(fields: Fields) -> bool:
    """Whether an update changes its document's shard key."""
    names = [name for _, name, _ in elements(fields[b"documentKey"]) if name != b"_id"]
    return b"updateDescription" in fields and touches(fields[b"updateDescription"], names)


def _array(values: object, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(kind)
    if not values:
        return pa.nulls(rows, kind)
    return pa.array(values, kind)
