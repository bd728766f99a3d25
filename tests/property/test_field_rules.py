"""Rules about fields: what is carried out on the way to a table is what ``verify`` expects, by two codes that share
nothing; and both are what the rules say."""

from __future__ import annotations

from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from hypothesis import assume, given
from hypothesis import strategies as st

from streaming.bson.elements import ARRAY, DOCUMENT, elements
from streaming.canonical.documents import canonical_document
from streaming.canonical.selected import selected_document
from streaming.fields.document_rules import DocumentRules
from streaming.fields.rules import EXCLUDE, HASH, RENAMES, FieldRules, Kind
from streaming.fields.update_rules import update
from streaming.mongo.errors import ConfigurationError
from tests.support.bson_documents import document, documents
from tests.support.field_rules import C1, field_rules


def ruled(mine: DocumentRules, raw: bytes) -> bytes | None:
    """The document under the rules; None where two fields meet under one name."""
    try:
        return mine.document(raw)
    except ConfigurationError as error:
        if "becomes" not in str(error):
            raise
        return None


def ready(rules: FieldRules) -> DocumentRules:
    mine = rules.of(C1)
    assert mine is not None
    return DocumentRules(mine)


@given(raws=st.lists(documents(), min_size=1, max_size=3), rules=field_rules())
def test_both_codes_agree(raws: list[bytes], rules: FieldRules) -> None:
    """Whatever the types, the depth and the arrays; one document by itself, or several behind one another."""
    mine = ready(rules)
    found = list(filter(None, (ruled(mine, raw) for raw in raws)))
    assume(len(found) == len(raws))
    plain = [(r.kind.value, r.path, r.renamed) for r in mine.rules.rules]
    expected = [selected_document(raw, 0, plain, mine.rules.salt) for raw in raws]
    assert [canonical_document(raw) for raw in found] == expected
    assert mine.documents(b"".join(raws)) == b"".join(found)


def values_at(raw: bytes, path: tuple[str, ...]) -> list[bytes]:
    """The bytes of every value at a path, through documents and arrays of any depth."""
    found: list[bytes] = []

    def look(tag: int, value: bytes, rest: tuple[str, ...]) -> None:
        if tag == ARRAY:
            for item, _, start, end in elements(value, 0):
                look(item, value[start:end], rest)
        elif not rest:
            found.append(value)
        elif tag == DOCUMENT:
            for inner, name, start, end in elements(value, 0):
                if name == rest[0].encode():
                    look(inner, value[start:end], rest[1:])

    look(DOCUMENT, raw, path)
    return found


@given(raw=documents(), rules=field_rules(kinds=(EXCLUDE, HASH)))
def test_nothing_that_is_left_out_is_there(raw: bytes, rules: FieldRules) -> None:
    """No field at a path that is left out, in whatever arrays; what is hashed is 64 digits or null; a document without
    such fields keeps its bytes; and rules that were carried out find nothing more to leave out."""
    mine = ready(rules)
    found = mine.document(raw)
    for rule in mine.rules.rules:
        if rule.kind is Kind.EXCLUDE:
            assert _names_at(found, rule.path) == 0
            if not _names_at(raw, rule.path) and len(mine.rules.rules) == 1:
                assert found == raw
        else:
            for value in values_at(found, rule.path):
                assert value == b"" or len(value) == 64 + 5
    assert canonical_document(found) == canonical_document(bytes(_normal(found)))


def _names_at(raw: bytes, path: tuple[str, ...]) -> int:
    """How many fields there are at a path."""
    count = 0

    def look(tag: int, value: bytes, rest: tuple[str, ...]) -> None:
        nonlocal count
        if tag == ARRAY:
            for item, _, start, end in elements(value, 0):
                look(item, value[start:end], rest)
        elif tag == DOCUMENT:
            for inner, name, start, end in elements(value, 0):
                if name == rest[0].encode():
                    if len(rest) == 1:
                        count += 1
                    else:
                        look(inner, value[start:end], rest[1:])

    look(DOCUMENT, raw, path)
    return count


def _normal(raw: bytes) -> bytes:
    """Through another library's eyes: the document is well-formed."""
    return RawBSONDocument(raw).raw


_SEGMENTS = ("a", "b", "c", "0", "1", "longer_name", "ü")


@given(
    raw=documents(),
    rules=field_rules(kinds=(EXCLUDE,)),
    path=st.lists(st.sampled_from(_SEGMENTS), min_size=1, max_size=4),
)
def test_an_update_tells_no_more_than_its_document(raw: bytes, rules: FieldRules, path: list[str]) -> None:
    """A key of an update, put together to the document that it makes, has under the rules what the document has: what
    is left out there is left out here, whatever part of the path a dotted key spells."""
    mine = ready(rules)
    key = ".".join(["a", *path])
    described = document([(b"updatedFields", (DOCUMENT, document([(key.encode(), (DOCUMENT, raw))])))])
    told = bson.decode(update(mine, described), CodecOptions(document_class=RawBSONDocument))
    names = [name for _, name, _, _ in elements(bytes(told["updatedFields"].raw), 0)]
    nested: Any = (DOCUMENT, raw)
    for segment in reversed(["a", *path]):
        kind = ARRAY if segment.isdigit() else DOCUMENT
        nested = (kind, document([(segment.encode(), nested)]))
    kept = mine.document(nested[1])
    there = _at(kept, ["a", *path])
    assert (there is not None) == bool(names)
    if there is not None:
        ((_, _, start, end),) = elements(bytes(told["updatedFields"].raw), 0)
        assert bytes(told["updatedFields"].raw)[start:end] == there


def _at(raw: bytes, path: list[str]) -> bytes | None:
    value = raw
    for segment in path:
        inside = {name: value[start:end] for _, name, start, end in elements(value, 0)}
        if segment.encode() not in inside:
            return None
        value = inside[segment.encode()]
    return value


@given(rules=field_rules(kinds=(RENAMES,)), raw=documents())
def test_two_fields_never_share_a_name(rules: FieldRules, raw: bytes) -> None:
    """Either the document has each name once, wherever it had so before, or there is an error that names both."""
    mine = ready(rules)
    names = [name for _, name, _, _ in elements(raw, 0)]
    assume(len(set(names)) == len(names))
    found = ruled(mine, raw)
    if found is not None:
        renamed = [name for _, name, _, _ in elements(found, 0)]
        assert len(set(renamed)) == len(renamed) == len(names)
