"""What Debezium's cases of `FieldExcludeListIT` and `FieldRenamesIT` are made of.

A case: the entries of the option (``C`` stands for the collection), a document, what is done to it then (None: it is
inserted or read), and what must be told of it: the document, and of an update ``updatedFields`` and ``removedFields``.
Where this project departs, the expectation is ours, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]

SALLY = {"name": "Sally", "phone": 123, "active": True, "scores": [1.2, 3.4, 5.6]}
OLD = {"name": "Sally May", "phone": 456, "active": False, "scores": [1.2, 3.4, 5.6, 7.8]}
HERE = {"number": 34, "street": "Claude Debussylaan", "city": "Amsterdam"}
THERE = {"number": 7, "street": "Fragkokklisias", "city": "Athens"}
WAS = {"number": 45, "street": "Claude Debussylaann", "city": "Amsterdame"}
PARTS = ("number", "street", "city")


@dataclass(frozen=True)
class Case:
    """``error``: two fields meet, and this one is named. ``deleted``: the document is deleted in the end."""

    name: str
    rules: str
    before: Document
    change: Document | None = None
    after: Document = field(default_factory=dict)
    updated: Document | None = None
    removed: list[str] | None = None
    error: str = ""

    def __str__(self) -> str:
        return self.name


def without(document: Document, *names: str) -> Document:
    return {name: value for name, value in document.items() if name not in names}


def renamed(document: Document, *names: str, to: str = "new_") -> Document:
    """With these at the end, under their new names."""
    return {**without(document, *names), **{to + name: document[name] for name in names}}


def dotted(prefix: str, document: Document) -> Document:
    return {f"{prefix}.{name}": value for name, value in document.items()}


def update(document: Document) -> Document:
    return {"$set": document}


def unset(*names: str) -> Document:
    return {"$unset": dict.fromkeys(names, "")}


WITH = {**SALLY, "address": HERE}
LIST, NESTED = {**SALLY, "addresses": [HERE, THERE]}, {**SALLY, "addresses": [[HERE], [THERE]]}
OLD_LIST, OLD_NESTED = {**OLD, "addresses": [WAS, WAS]}, {**OLD, "addresses": [[WAS], [WAS]]}
TWO = {"name": "Sally", "phone": 123}
OLD_TWO = {"name": "Sally May", "phone": 456}
NO_NUMBER, NO_NUMBERS = without(HERE, "number"), [without(HERE, "number"), without(THERE, "number")]
SECOND = {"name": "Sally May", "addresses": [{"second": [WAS]}]}
ONE, ONE_NESTED = {"name": "Sally May", "addresses": [WAS]}, {"name": "Sally May", "addresses": [[WAS]]}
NAME = {"name": "Sally"}


def below(prefix: str, *names: str) -> list[str]:
    return [f"{prefix}.{name}" for name in names]
