"""The options of `mongodb-changes`: Debezium's names where Debezium has one. Strings in, checked values out.

| option | default | |
|---|---|---|
| mongodb.connection.string | required | |
| capture.mode | change_streams_update_full | change_streams, and either with `_with_pre_image` |
| capture.mode.full.update.type | lookup | or post_image |
| capture.scope, .target, filters.match.mode, signal.data.collection, lists | | `streaming.scope.scope` |
| start.position | now | oldest, timestamp, token; implied by one of the next two |
| capture.start.op.time | -1 | a 64-bit BSON timestamp: the first operation to be read |
| start.resume.token | | the token after which to start: base64 of BSON, or JSON `{"_data": "..."}` |
| engine.batch.max.events | 200000 | see `streaming.source.admission` |
| engine.batch.max.bytes | 0: 512 MiB | the same in bytes |
| engine.stream.readers | 1 | how many may read a large batch side by side |
| cursor.max.await.time.ms | 0: 1000 | how long one request waits for events, through mongos |
| cursor.oversize.handling.mode | fail | what becomes of an event above 16 MB: fail, skip, or split (MongoDB 6.0.9) |
| cursor.oversize.skip.threshold | 0: none | with skip: documents of more bytes stay at the server as well |
| cursor.pipeline | | further stages, as a JSON array: see `streaming.source.user_stages` |
| cursor.pipeline.order | internal_first | or user_first, user_only: where these stages stand |
| skipped.operations | | c, u, d: operations that are left out by a stage before these |
| trailer | false | a last row for each batch, with its end, token and counts |
| columns | full | or state: without what a state table does not need, which the server is not asked for |
| events | all | or latest: of changes of a document that lie close together only the newest, in any order |
| failures | raise | or rows: an event that cannot be processed is a row of kind "dead", and no error |
| provide.transaction.metadata | false | with columns=state: which transaction each event is part of, too |
| details | | with columns=state: what else of events: transaction (as the option above), update (what it says) |
| hints.file | | see `streaming.source.hints` |
| field.exclude.list, field.renames, engine.field.hash.list, .salt | | see `streaming.fields.rules` |

The start position counts for a new query; one that has a checkpoint goes on from it. Unknown options are
refused.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import bson
from bson.errors import BSONError

from streaming.fields import server
from streaming.fields.rules import OPTIONS as FIELD_OPTIONS
from streaming.fields.rules import FieldRuleError, FieldRules
from streaming.mongo.errors import ConfigurationError
from streaming.positions import ClusterTime
from streaming.scope.scope import OPTIONS as SCOPE_OPTIONS
from streaming.scope.scope import CaptureScope, ScopeError
from streaming.source.change_cursor import StreamSpec
from streaming.source.user_stages import OPERATIONS, Order, UserStages

StartMode = Literal["now", "oldest", "timestamp", "token"]

_CAPTURE_MODES = {
    "change_streams": (False, False),
    "change_streams_update_full": (True, False),
    "change_streams_with_pre_image": (False, True),
    "change_streams_update_full_with_pre_image": (True, True),
}
_FULL_DOCUMENTS = {"lookup": "updateLookup", "post_image": "whenAvailable"}
_AWAIT_MS = 1_000
BATCH_BYTES = 512 << 20
_STATE_FIELDS = ("operationType", "clusterTime", "wallTime", "ns", "to", "documentKey", "fullDocument")
"""Of an event, what a state table needs (`streaming.source.change_events`)."""
_TRANSACTION_FIELDS = ("lsid", "txnNumber")
_TRANSACTION, _UPDATE = "transaction", "update"
OVERSIZE, THRESHOLD = "cursor.oversize.handling.mode", "cursor.oversize.skip.threshold"
PIPELINE, ORDER, SKIPPED = "cursor.pipeline", "cursor.pipeline.order", "skipped.operations"
OPTIONS = (
    "mongodb.connection.string",
    "capture.mode",
    "capture.mode.full.update.type",
    *SCOPE_OPTIONS,
    "start.position",
    "capture.start.op.time",
    "start.resume.token",
    "engine.batch.max.events",
    "engine.batch.max.bytes",
    "engine.stream.readers",
    "cursor.max.await.time.ms",
    OVERSIZE,
    THRESHOLD,
    PIPELINE,
    ORDER,
    SKIPPED,
    "trailer",
    "columns",
    "events",
    "failures",
    "provide.transaction.metadata",
    "details",
    "hints.file",
    *FIELD_OPTIONS,
)


@dataclass(frozen=True)
class ChangeOptions:
    """Checked options. ``start_time``: the first operation to be read; ``start_token``: a raw token; ``fields``: what
    is left out, renamed or hashed."""

    uri: str = field(repr=False)
    stream: StreamSpec
    start: StartMode
    start_time: ClusterTime | None
    start_token: bytes | None
    max_events: int
    max_bytes: int
    readers: int
    trailer: bool
    wide: bool
    latest: bool
    transactions: bool
    updates: bool
    hints_file: str | None
    fields: FieldRules
    raises: bool

    @property
    def bytes_per_event(self) -> float:
        """What an event of a full batch may have on average."""
        return self.max_bytes / self.max_events

    @property
    def needs_images(self) -> bool:
        """Whether pre- or post-images are asked for, which MongoDB has from 6.0."""
        return self.stream.before_change or self.stream.full_document == "whenAvailable"

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ChangeOptions:
        """Raises ConfigurationError, which names the option, its value, and what is expected."""
        given = {name.lower(): value for name, value in options.items()}
        _refuse_unknown(given)
        uri = given.get("mongodb.connection.string", "").strip()
        if not uri:
            raise ConfigurationError(
                "mongodb.connection.string is missing: mongodb://host:port/?replicaSet=name"
            )
        try:
            scope = CaptureScope.parse(given)
            rules = FieldRules.parse(given)
        except (ScopeError, FieldRuleError) as error:
            raise ConfigurationError(str(error)) from error
        with_full, before_change = _CAPTURE_MODES[
            _choice(given, "capture.mode", tuple(_CAPTURE_MODES), "change_streams_update_full")
        ]
        full_type = _choice(given, "capture.mode.full.update.type", tuple(_FULL_DOCUMENTS), "lookup")
        wide = _choice(given, "columns", ("full", "state"), "full") == "full"
        details = _details(given)
        transactions = _flag(given, "provide.transaction.metadata") or _TRANSACTION in details
        fields = (*_STATE_FIELDS, *(_TRANSACTION_FIELDS if transactions else ()))
        updates = _UPDATE in details
        stream = StreamSpec(
            scope=scope,
            full_document=_FULL_DOCUMENTS[full_type] if with_full else None,
            before_change=before_change and wide,
            fields=None if wide else (*fields, *(("updateDescription",) if updates else ())),
            without=server.stages(rules),
            oversize=_choice(given, OVERSIZE, ("fail", "skip", "split"), "fail"),
            threshold=_number(given, THRESHOLD, 0, least=0),
            await_ms=_number(given, "cursor.max.await.time.ms", 0, least=0) or _AWAIT_MS,
            user=_user_stages(given),
        )
        start, start_time, start_token = _start(given)
        return cls(
            uri=uri,
            stream=stream,
            start=start,
            start_time=start_time,
            start_token=start_token,
            max_events=_number(given, "engine.batch.max.events", 200_000, least=1),
            max_bytes=_number(given, "engine.batch.max.bytes", 0, least=0) or BATCH_BYTES,
            readers=_number(given, "engine.stream.readers", 1, least=1),
            trailer=_flag(given, "trailer"),
            wide=wide,
            latest=_choice(given, "events", ("all", "latest"), "all") == "latest",
            transactions=transactions,
            updates=updates,
            hints_file=given.get("hints.file", "").strip() or None,
            fields=rules,
            raises=_choice(given, "failures", ("raise", "rows"), "raise") == "raise",
        )


def _user_stages(given: Mapping[str, str]) -> UserStages:
    order = _choice(given, ORDER, tuple(Order), Order.INTERNAL_FIRST)
    skipped = [letter for part in given.get(SKIPPED, "").split(",") if (letter := part.strip().lower())]
    if not set(skipped) <= OPERATIONS.keys():
        raise ConfigurationError(f"{SKIPPED}={given[SKIPPED]!r}: expected some of {', '.join(OPERATIONS)}")
    try:
        return UserStages.parse(given.get(PIPELINE, ""), Order(order), skipped)
    except ValueError as error:
        raise ConfigurationError(f"{PIPELINE}={given[PIPELINE]!r}: {error}") from error


def _details(given: Mapping[str, str]) -> frozenset[str]:
    found = frozenset(filter(None, (part.strip().lower() for part in given.get("details", "").split(","))))
    if not found <= {_TRANSACTION, _UPDATE}:
        raise ConfigurationError(f"details={given['details']!r}: expected some of {_TRANSACTION}, {_UPDATE}")
    return found


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for name in given:
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(OPTIONS)}"
            raise ConfigurationError(f"{name}={given[name]!r}: mongodb-changes has no such option; {advice}")


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = given.get(name, "").strip().lower() or default
    if value not in choices:
        raise ConfigurationError(f"{name}={given[name]!r}: expected one of {', '.join(choices)}")
    return value


def _flag(given: Mapping[str, str], name: str) -> bool:
    return _choice(given, name, ("true", "false"), "false") == "true"


def _number(given: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = given.get(name, "").strip() or str(default)
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ConfigurationError(f"{name}={given[name]!r}: expected a whole number of at least {least}")
    return value


def _start(given: Mapping[str, str]) -> tuple[StartMode, ClusterTime | None, bytes | None]:
    time = _start_time(given)
    token = _start_token(given)
    implied: StartMode = "timestamp" if time is not None else "token" if token is not None else "now"
    text = _choice(given, "start.position", ("now", "oldest", "timestamp", "token"), implied)
    if time is not None and token is not None:
        raise ConfigurationError("capture.start.op.time and start.resume.token exclude each other")
    if text != implied and implied != "now":
        source = "capture.start.op.time" if time is not None else "start.resume.token"
        raise ConfigurationError(f"start.position={text!r} contradicts {source}={given[source]!r}")
    if text == "timestamp" and time is None:
        raise ConfigurationError("start.position='timestamp' needs capture.start.op.time")
    if text == "token" and token is None:
        raise ConfigurationError("start.position='token' needs start.resume.token")
    mode: StartMode = "oldest" if text == "oldest" else implied
    return mode, time, token


def _start_time(given: Mapping[str, str]) -> ClusterTime | None:
    name = "capture.start.op.time"
    value = _number(given, name, -1, least=-1)
    if value == -1:
        return None
    try:
        time = ClusterTime.from_int(value)
    except ValueError as error:
        raise ConfigurationError(f"{name}={given[name]!r}: not a 64-bit BSON timestamp: {error}") from error
    if time.t == 0:
        raise ConfigurationError(
            f"{name}={given[name]!r}: not a 64-bit BSON timestamp (seconds << 32 | increment): 0 seconds."
            f" For a time in seconds write {value << 32}"
        )
    return time


def _start_token(given: Mapping[str, str]) -> bytes | None:
    name = "start.resume.token"
    text = given.get(name, "").strip()
    if not text:
        return None
    try:
        raw = bson.encode(json.loads(text)) if text.startswith("{") else base64.b64decode(text, validate=True)
        token = bson.decode(raw)
    except (ValueError, binascii.Error, BSONError, TypeError) as error:
        raise ConfigurationError(
            f'{name}={text!r}: expected the token as base64 of BSON, or as JSON {{"_data": "..."}}: {error}'
        ) from error
    if "_data" not in token:
        raise ConfigurationError(
            f"{name}={text!r}: a resume token has a field _data, this has {sorted(token)}"
        )
    return raw
