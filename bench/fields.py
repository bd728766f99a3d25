"""What rules about fields cost, beside the decoding of the same documents: ``python -m bench.fields``.

Microseconds of a core for a document, the least of fifteen rounds; compare ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import bson

from streaming.fields.document_rules import document_rules
from streaming.fields.rules import EXCLUDE, HASH, RENAMES, SALT, FieldRules
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace

DOCUMENTS, ROUNDS = 8_000, 15
WHERE = "shop.customers"
CASES = {
    "excluded by the server, 3": {EXCLUDE: ("ssn", "address.door", "items.cost")},
    "excluded here, 1 at the top": {EXCLUDE: ("email",)},
    "excluded here, 3": {EXCLUDE: ("email", "address.street", "items.price")},
    "renamed, 1": {RENAMES: ("email:mail",)},
    "hashed, 1": {HASH: ("email",)},
    "hashed, 2, and renamed, 2": {HASH: ("email", "phone"), RENAMES: ("email:mail", "address.zip:code")},
}


def document(number: int) -> bytes:
    """A customer of a shop, with a nested document and an array of them."""
    return bson.encode(
        {
            "_id": bson.ObjectId(),
            "name": f"customer {number}",
            "email": f"user{number}@example.com",
            "phone": 1_234_567 + number,
            "active": True,
            "created": datetime(2024, 1, 1, tzinfo=UTC),
            "total": 12.5 * number,
            "address": {"street": "Some street 12", "city": "Amsterdam", "zip": "1011AB"},
            "items": [{"sku": f"s{n}", "qty": n, "price": 1.5} for n in range(2)],
            "tags": ["a", "b"],
        }
    )


def microseconds(work: Callable[[], object]) -> float:
    """Of a core, for each of the documents."""
    least = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        least = min(least, time.process_time() - before)
    return least / DOCUMENTS * 1e6


def main() -> None:
    raw = b"".join(document(number) for number in range(DOCUMENTS))
    decoder = COLUMNS.decoder(COLUMNS.observe(raw))
    print(f"{len(raw) / DOCUMENTS:.0f} bytes a document")
    print(f"decoded: {microseconds(lambda: decoder.decode(raw)):.2f}")
    for name, lists in CASES.items():
        entries = {option: ",".join(f"{WHERE}.{path}" for path in paths) for option, paths in lists.items()}
        rules = document_rules(FieldRules.parse({SALT: "x" * 16, **entries}), Namespace.parse(WHERE))
        assert rules is not None
        print(f"{name}: {microseconds(lambda rules=rules: rules.documents(raw)):.2f}")  # type: ignore[misc]


if __name__ == "__main__":
    main()
