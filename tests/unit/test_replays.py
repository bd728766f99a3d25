"""What becomes of stored bytes that are to be told later: behind the rules as they are now, or refused, with why."""

from __future__ import annotations

from typing import Any

import bson
import pyarrow as pa
import pytest

from snapshotter.landing.buried import TOLD, Letter
from snapshotter.landing.targets.replays import Behind, source_rows, why_not
from streaming.fields.document_rules import document_rules
from streaming.fields.rules import FieldRules
from streaming.namespaces import Namespace

PEOPLE = Namespace("shop", "people")
SALT = "a secret of sixteen"


def rules_of(**options: str) -> FieldRules:
    return FieldRules.parse({name.replace("__", "."): value for name, value in options.items()})


def behind(rules: FieldRules) -> Behind:
    return Behind.of(document_rules(rules, PEOPLE), rules.hashing_digest)


def row_of(rules: FieldRules, document: dict[str, Any] | bytes | None, **more: Any) -> dict[str, Any]:
    """What becomes of the letter of an insert with this document."""
    raw = bson.encode(document) if isinstance(document, dict) else document
    letter = {
        "id": "l1",
        "stage": "stream",
        "collection": str(PEOPLE),
        "operation": "insert",
        "_key": "k",
        "_cluster_time": 5,
        "request": None,
        "window": None,
        "bytes": raw,
        "hashes": rules.hashing_digest,
        **more,
    }
    (batch,) = source_rows({str(PEOPLE): behind(rules)}, pa.Table.from_pylist([letter]).to_batches())
    (row,) = batch.to_pylist()
    return row


def test_stored_bytes_are_brought_behind_the_rules_of_now() -> None:
    """What is left out by now goes, a rename is carried out, and what is hashed is not hashed again."""
    rules = rules_of(
        field__renames="shop.people.name:called",
        field__exclude__list="shop.people.mail",
        engine__field__hash__list="shop.people.phone",
        engine__field__hash__salt=SALT,
    )
    row = row_of(rules, {"_id": 1, "name": "n", "mail": "m", "phone": "f" * 64})
    assert (row["refused"], row["op"], row["operation_type"]) == (None, "c", "insert")
    assert bson.decode(row["document"]) == {"_id": 1, "phone": "f" * 64, "called": "n"}
    assert (row["db"], row["collection"], row["cluster_time"]) == ("shop", "people", 5)
    assert row["_replayed"] == '["replayed","l1"]'


def test_a_read_names_its_window() -> None:
    """It is a READ of the request that read it."""
    row = row_of(rules_of(), {"_id": 1}, stage="read", operation=None, request="r", window="a/3")
    assert (row["op"], row["snapshot"], row["_window"], row["_request"]) == ("r", "incremental", "a/3", "r")


@pytest.mark.parametrize(
    ("document", "more", "why"),
    [
        (None, {}, "no bytes of it are stored"),
        ({"_id": 1}, {"operation": "delete"}, "of the operation 'delete' has no document"),
        ({"_id": 1, "name": 1, "called": 2}, {}, "becomes 'called'"),
        (bson.encode({"_id": 1, "x": 1}).replace(b"\x10x", b"\x20x"), {}, "0x20"),
        ({"x": 1}, {}, "has no _id"),
        ({"_id": 1}, {"hashes": "12345678"}, "hashed by other rules"),
        ({"_id": 1}, {"hashes": None}, "hashed by other rules"),
        ({"_id": 1}, {"hashes": "12345678+renamed"}, "has renamed fields"),
    ],
)
def test_what_cannot_be_told_is_refused(document: Any, more: dict[str, Any], why: str) -> None:
    """With the reason, and without a value of the document."""
    rules = rules_of(
        field__renames="shop.people.name:called",
        engine__field__hash__list="shop.people.phone",
        engine__field__hash__salt=SALT,
    )
    row = row_of(rules, document, **more)
    assert why in row["refused"]
    assert row["document"] is None


def test_where_nothing_is_hashed_older_letters_are_told() -> None:
    """Those of a table that did not say by which rules."""
    assert row_of(rules_of(field__renames="shop.people.a:b"), {"_id": 1}, hashes=None)["refused"] is None


def test_why_a_letter_is_not_told_is_known_before() -> None:
    """Without bytes, which may be withheld, or where the event was told."""
    kept = dict.fromkeys(Letter.__dataclass_fields__, None) | {"id": "l1", "size": 9, "stored": True}

    def reason(**more: Any) -> str | None:
        return why_not(Letter(**{**kept, **more}))

    assert reason() is None
    assert reason(events="refused: as before") is None
    assert "have been told" in str(reason(events=TOLD))
    assert "its 9 bytes are withheld" in str(reason(stored=False))
    assert reason(stored=False, size=0) == "no bytes of it are stored"
