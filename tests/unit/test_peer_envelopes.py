"""Documents of Debezium's tests as the JSON of its envelope (docs/peer-tests.md)."""

from __future__ import annotations

import bson
import pytest

from streaming.events.extended_json import Form, writer


@pytest.mark.parametrize("form", [Form.STRICT, Form.RELAXED])
def test_a_dbref_is_a_document(form: Form) -> None:
    """`shouldSupportDbRef2`: its collection and its id, and its database where it names one."""
    near, far = bson.DBRef("othercollection", 15), bson.DBRef("orders", "a", "shop")
    text = writer(form).document(bson.encode({"name": "Sally", "ref": near, "far": far}))
    assert text == (
        '{"name": "Sally","ref": {"$ref": "othercollection","$id": 15},'
        '"far": {"$ref": "orders","$id": "a","$db": "shop"}}'
    )


def test_a_field_named_op_is_the_documents() -> None:
    """`shouldSnapshotDocumentContainingFieldNamedOp`."""
    assert writer(Form.STRICT).document(bson.encode({"_id": 1, "op": "foo"})) == '{"_id": 1,"op": "foo"}'
