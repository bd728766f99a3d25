"""`streaming.fields.shape`: nested documents as fields at the top level, arrays as documents."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from streaming.canonical.documents import canonical_document
from streaming.canonical.flattened import flattened
from streaming.fields.rules import FieldRules
from streaming.fields.shape import NO_SHAPE, Shape
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.shaped import Shaped
from streaming.mongo.errors import ConfigurationError
from streaming.namespaces import Namespace

ORDERS = Namespace("shop", "orders")
DOCUMENT = {"_id": {"k": 1}, "a": {"b": 1, "c": {"d": 2}}, "n": [5, [6, {"x": 7}]], "e": {}, "f": []}


def reshaped(shape: Shape, document: dict[str, Any]) -> dict[str, Any]:
    """As the decoder sees it; and the verifier agrees."""
    raw = bson.encode(document)
    found = shape.document(raw)
    delimiter = shape.delimiter.encode() if shape.flatten else None
    assert canonical_document(found) == flattened(canonical_document(raw), delimiter, arrays=shape.arrays)
    return bson.decode(found)


@pytest.mark.parametrize(
    ("shape", "rest"),
    [
        (Shape(flatten=True), {"a_b": 1, "a_c_d": 2, "n": [5, [6, {"x": 7}]], "e": {}, "f": []}),
        (
            Shape(flatten=True, delimiter="."),
            {"a.b": 1, "a.c.d": 2, "n": [5, [6, {"x": 7}]], "e": {}, "f": []},
        ),
        (
            Shape(arrays=True),
            {"a": {"b": 1, "c": {"d": 2}}, "n": {"_0": 5, "_1": {"_0": 6, "_1": {"x": 7}}}, "e": {}, "f": {}},
        ),
        (
            Shape(flatten=True, arrays=True),
            {"a_b": 1, "a_c_d": 2, "n__0": 5, "n__1__0": 6, "n__1__1_x": 7, "e": {}, "f": {}},
        ),
        (NO_SHAPE, {name: value for name, value in DOCUMENT.items() if name != "_id"}),
    ],
    ids=["flatten", "another delimiter", "arrays", "both", "neither"],
)
def test_each_shape(shape: Shape, rest: dict[str, Any]) -> None:
    """`_id` stays whole, and so does what holds nothing."""
    assert reshaped(shape, DOCUMENT) == {"_id": {"k": 1}, **rest}
    two = bson.encode(DOCUMENT) + bson.encode({"_id": 2})
    assert bson.decode_all(shape.documents(two)) == [{"_id": {"k": 1}, **rest}, {"_id": 2}]


def test_two_fields_that_come_to_one_name_are_an_error() -> None:
    """Which names both; nothing is chosen. Another delimiter tells them apart."""
    document = {"_id": 1, "a_b": 1, "a": {"b": 2}}
    with pytest.raises(ConfigurationError, match=r"'a_b' and 'a\.b' of a document both come to 'a_b'"):
        Shape(flatten=True).document(bson.encode(document))
    assert reshaped(Shape(flatten=True, delimiter="__"), document) == {"_id": 1, "a_b": 1, "a__b": 2}


def test_a_name_that_comes_to_the_ids_is_an_error_too() -> None:
    """A row would have another key than its document."""
    for shape, field in (
        (Shape(flatten=True), {"": {"id": 2}}),
        (Shape(flatten=True, delimiter=""), {"_": {"id": 2}}),
    ):
        with pytest.raises(ConfigurationError, match="both come to '_id'"):
            shape.document(bson.encode({"_id": 1, **field}))


def test_a_collection_that_is_sharded_has_no_other_shape() -> None:
    """Unless by its id: rows are found by the fields of the shard key, of which an event tells no place."""
    for shape in (Shape(flatten=True), Shape(arrays=True)):
        shape.check(())
        with pytest.raises(
            ConfigurationError, match=r"sharded by a\.b, region cannot have rows in another shape"
        ):
            shape.check(("a.b", "region"))
        with pytest.raises(ConfigurationError, match="sharded"):
            Shaped(COLUMNS, shape).decoder(COLUMNS.least_plan(), ("region",))
    NO_SHAPE.check(("region",))


def test_another_shape_is_as_good_as_other_rules() -> None:
    """A table that was written in another one is read again, and every row is written."""
    assert Shape(arrays=True, delimiter=".").text == Shape(arrays=True).text, "there is nothing to join"
    texts = [
        shape.text
        for shape in (NO_SHAPE, Shape(flatten=True), Shape(flatten=True, delimiter="."), Shape(arrays=True))
    ]
    assert len(set(texts)) == len(texts)
    for before in texts:
        for now in texts:
            then = FieldRules(shape=before).to_text()
            assert FieldRules(shape=now).differ(then, ORDERS) == (before != now)
