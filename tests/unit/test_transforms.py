"""Transforms and predicates of Kafka Connect: each but one is named as not carried out."""

from __future__ import annotations

from snapshotter.configuration.transforms import Declared, declared, warnings


def test_each_is_declared_with_its_class_and_its_options() -> None:
    """In the order in which they are listed, under either of the names that Debezium has for the list."""
    values = {
        "transforms": "unwrap, route",
        "transforms.unwrap.type": "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState",
        "transforms.unwrap.add.fields": "op",
        "debezium.predicates": "p",
        "debezium.predicates.p.type": "x.P",
        "name": "shop",
    }
    assert list(declared(values)) == [
        Declared(
            "transforms",
            "unwrap",
            "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState",
            {"add.fields": "op"},
        ),
        Declared("transforms", "route", ""),
        Declared("debezium.predicates", "p", "x.P"),
    ]


def test_what_is_said_of_them() -> None:
    """One sentence each; one without a class, and options of one that is not listed, too."""
    values = {
        "transforms": "a,b",
        "transforms.a.type": "x.A",
        "transforms.a.field": "f",
        "transforms.c.type": "x.C",
        "predicates": "p",
        "predicates.p.type": "x.P",
        "debezium.transforms": "",
    }
    assert list(warnings(values)) == [
        "transforms: a (x.A) is not carried out: documents go straight into tables",
        "transforms: b (transforms.b.type is not set) is not carried out: documents go straight into tables",
        "predicates: p (x.P) is not carried out: there is no transform to choose for",
        "transforms.c.type has no effect: transforms does not list c",
    ]
