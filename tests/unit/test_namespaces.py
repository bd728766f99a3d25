"""Full names of collections, as Debezium's `CollectionIdTest` tries them (docs/peer-tests.md)."""

from __future__ import annotations

import pytest

from streaming.namespaces import Namespace


@pytest.mark.parametrize(
    ("text", "database", "collection"), [("b.c", "b", "c"), ("b.c.d", "b", "c.d"), ("a..b", "a", ".b")]
)
def test_the_first_dot_ends_the_database(text: str, database: str, collection: str) -> None:
    """A collection's name may have dots, a database's never does."""
    found = Namespace.parse(text)
    assert (found.database, found.collection, str(found)) == (database, collection, text)


@pytest.mark.parametrize("text", [".a.b", "a.", "a", ".rs0.a.b", "a.b.", "", "."])
def test_a_name_without_both_parts_is_refused(text: str) -> None:
    """With a dot at its start or its end, or of one part; the message shows it."""
    with pytest.raises(ValueError, match=r"database\.collection") as refusal:
        Namespace.parse(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(("database", "collection"), [("a.b", "c"), ("", "c"), ("a", "")])
def test_parts_that_make_no_name_are_refused(database: str, collection: str) -> None:
    """Whoever puts them together: a dot in a database would move the border between the two."""
    with pytest.raises(ValueError, match="not a collection's full name"):
        Namespace(database, collection)
