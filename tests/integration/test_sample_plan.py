"""What a new table's columns are told by."""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient

from snapshotter.reading.catalogue import sample_plan
from streaming.fields.rules import FieldRules
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace


def test_large_documents_are_few_of_a_sample(
    mongo_client: MongoClient[dict[str, Any]], database: str
) -> None:
    """The first and the last documents are looked at: 500 of them each, or as many as have 4 MB."""
    for name, size, seen in (("small", 10, 500), ("large", 1 << 20, 4)):
        between, count = {seen, seen + 1}, 2 * seen + 2
        documents = (
            {"_id": n, "between" if n in between else "seen": n, "text": "x" * size} for n in range(count)
        )
        mongo_client[database][name].insert_many(documents)
        plan = sample_plan(COLUMNS, mongo_client, FieldRules(), Namespace(database, name))
        assert set(plan.names) == {"_id", "seen", "text"}
