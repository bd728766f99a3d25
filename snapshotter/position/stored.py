"""What other products have stored of their position, and where to begin because of it.

    Debezium                  {"sec": 1764000000, "ord": 7, "resume_token": "<base64 of BSON>", ...}
    MongoDB Kafka connector   {"_id": "{\\"_data\\": \\"82...\\"}", "copy": "true" | "HEARTBEAT": "true"}
    mongo-spark               {"version": 1, "offset": {"_data": "82..."} | {"$timestamp": {"t": 1764000000, "i": 0}}}
    mongodb-changes (ours)    {"t": 1764000000, "i": 7, "nonce": 0}

Invariant: nothing between the stored event and the beginning is lost. Where the time of the event is stored, all that
carries it is read again, for the events of one transaction share it. Where only a token is, the stream begins behind
it. What was under way there and is not carried on here is said in `Stored.notes`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import bson
from bson.errors import BSONError

from snapshotter.position.own_file import is_export, parse_export
from snapshotter.position.starts import Start, token_of_json
from streaming.positions import ClusterTime

_UNFINISHED = (
    "the {what} had not finished there: what it had not read yet is not in the tables, unless a start here reads it "
    "(snapshot.mode=initial)"
)


@dataclass(frozen=True, slots=True)
class Stored:
    """Whose position it is (``product``), where to begin, and what to say to whoever imports it."""

    product: str
    start: Start
    notes: tuple[str, ...] = ()


def parse_stored(value: Any) -> Stored:
    """The position in one stored value, as JSON gives it. Raises ValueError for any other."""
    if isinstance(value, Mapping):
        return _of_mapping(value)
    raise ValueError(f"no stored position: {_short(value)}")


def _of_mapping(value: Mapping[str, Any]) -> Stored:
    if is_export(value):
        return Stored("snapshotter", parse_export(json.dumps(dict(value))))
    if {"sec", "ord", "resume_token", "initsync"} & value.keys():
        return _debezium(value)
    if "_id" in value:
        return _kafka_connector(value)
    if "offset" in value and "version" in value:
        return _mongo_spark(value)
    if "_data" in value:
        return Stored("a resume token", Start(token=_token(dict(value))))
    if {"t", "i"} <= value.keys():
        return Stored("mongodb-changes", Start(time=_time(value["t"], value["i"]), inclusive=False))
    raise ValueError(f"no stored position that is known: {_short(value)}")


def _debezium(value: Mapping[str, Any]) -> Stored:
    notes = []
    if _is_true(value.get("initsync")):
        notes.append(_UNFINISHED.format(what="initial snapshot"))
    if value.get("incremental_snapshot_collections"):
        notes.append(
            "an incremental snapshot was under way there: ask for it here again, with snapshotter execute-snapshot"
        )
    seconds, increment = value.get("sec"), value.get("ord")
    if _is_number(seconds) and seconds > 0:
        return Stored("Debezium", Start(time=_time(seconds, max(0, increment or 0))), tuple(notes))
    token = value.get("resume_token")
    if not isinstance(token, str) or not token:
        raise ValueError(f"Debezium's offset holds neither a time nor a resume token: {_short(value)}")
    return Stored("Debezium", Start(token=_debezium_token(token)), tuple(notes))


def _debezium_token(text: str) -> bytes:
    """Base64 of BSON; the ``_data`` alone in older offsets."""
    if (raw := _base64_of_bson(text)) is not None:
        return raw
    try:
        bytes.fromhex(text)
    except ValueError:
        raise ValueError(
            f"Debezium's resume_token is neither base64 of BSON nor hex: {text[:40]!r}"
        ) from None
    return bson.encode({"_data": text})


def _base64_of_bson(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(text, validate=True)
        return raw if "_data" in bson.decode(raw) else None
    except (binascii.Error, ValueError, BSONError):
        return None


def _kafka_connector(value: Mapping[str, Any]) -> Stored:
    product, token = "the MongoDB Kafka connector", value["_id"]
    found = json.loads(token) if isinstance(token, str) and token.startswith("{") else token
    copying = _is_true(value.get("copy"))
    if isinstance(found, Mapping) and "_data" in found:
        notes = (_UNFINISHED.format(what="copy of existing data"),) if copying else ()
        return Stored(product, Start(token=_token(dict(found))), notes)
    if copying:
        raise ValueError(
            "the MongoDB Kafka connector had not finished to copy existing data, and stores no position before it has: "
            "start here with snapshot.mode=initial, which reads it"
        )
    raise ValueError(f"the MongoDB Kafka connector's offset holds no resume token: {_short(value)}")


def _mongo_spark(value: Mapping[str, Any]) -> Stored:
    offset = value["offset"]
    if value["version"] != 1 or not isinstance(offset, Mapping):
        raise ValueError(f"an offset of mongo-spark that is not known: {_short(value)}")
    if isinstance(stamp := offset.get("$timestamp"), Mapping):
        time = _time(stamp.get("t"), stamp.get("i"))
        if time.to_int() == (1 << 64) - 1:
            raise ValueError("mongo-spark had not begun: its offset means the time of its start")
        return Stored("mongo-spark", Start(time=time))
    return Stored("mongo-spark", Start(token=_token(dict(offset))))


def _token(value: dict[str, Any]) -> bytes:
    return token_of_json(json.dumps(value))


def _time(seconds: Any, increment: Any) -> ClusterTime:
    if not (_is_number(seconds) and _is_number(increment)):
        raise ValueError(f"no time of an event: {seconds!r}, {increment!r}")
    return ClusterTime(seconds, increment)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
