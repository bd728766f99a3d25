"""Rules about fields, from the options: what they mean, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streaming.fields.rules import EXCLUDE, HASH, RENAMES, SALT, CollectionRules, FieldRuleError, FieldRules
from streaming.fields.server import projection
from streaming.namespaces import Namespace
from tests.unit.test_settings import made, problems

SECRET = "a secret of sixteen"
C1 = Namespace("dbA", "c1")


def rules(**options: str) -> FieldRules:
    return FieldRules.parse({name.replace("__", "."): value for name, value in options.items()})


def of(namespace: Namespace = C1, **options: str) -> CollectionRules:
    found = rules(**options).of(namespace)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("entry", "others"),
    [
        ("dbA.c1.name", set()),
        ("  dbA.c1.name ", set()),
        ("DBa.C1.name", set()),
        ("*.c1.name", {"other.c1"}),
        ("***.*1.name", {"other.c1", "dbA.c11"}),
        ("d*A.c*.name", {"dbA.c12", "dbA.c11"}),
        ("dbA.*.name", {"dbA.c12", "dbA.c11", "dbA.orders"}),
        ("*.*.name", {"other.c1", "dbA.c12", "dbA.c11", "dbA.orders"}),
    ],
)
def test_which_collections_an_entry_is_about(entry: str, others: set[str]) -> None:
    """Both names whole and regardless of case; * stands for any characters, and spaces around mean nothing."""
    found = rules(field__exclude__list=f"x.y.z, {entry}")
    mine = found.of(C1)
    assert mine is not None
    assert [rule.path for rule in mine.rules] == [("name",)]
    names = ("other.c1", "dbA.c12", "dbA.c11", "dbA.orders")
    assert {name for name in names if found.of(Namespace.parse(name)) is not None} == others


def test_a_collection_with_a_dot_in_its_name_is_met_by_a_star() -> None:
    """An entry is cut at its dots, so such a collection has no name there; * stands for dots, too."""
    assert rules(field__exclude__list="db.*.name").of(Namespace("db", "a.b")) is not None
    assert rules(field__exclude__list="db.a.name").of(Namespace("db", "a.b")) is None


@pytest.mark.parametrize(
    ("options", "option", "why"),
    [
        ({EXCLUDE: "dbA"}, EXCLUDE, "expected database.collection.field"),
        ({EXCLUDE: "dbA.c1"}, EXCLUDE, "expected database.collection.field"),
        ({EXCLUDE: "name"}, EXCLUDE, "expected database.collection.field"),
        ({EXCLUDE: "dbA.c1."}, EXCLUDE, "expected database.collection.field"),
        ({EXCLUDE: ".c1.name"}, EXCLUDE, "expected database.collection.field"),
        ({EXCLUDE: "dbA.c1.a..b"}, EXCLUDE, "expected database.collection.field"),
        ({EXCLUDE: "dbA.c1.a, dbA .c1.b"}, EXCLUDE, "expected database.collection.field"),
        ({RENAMES: "name:new"}, RENAMES, "expected database.collection.field:new"),
        ({RENAMES: "dbA.c1.name"}, RENAMES, "expected database.collection.field:new"),
        ({RENAMES: "dbA.c1.name:"}, RENAMES, "expected database.collection.field:new"),
        ({RENAMES: "dbA.c1.name=new"}, RENAMES, "expected database.collection.field:new"),
        ({RENAMES: ":new"}, RENAMES, "expected database.collection.field:new"),
        ({RENAMES: "dbA.c1.a:b:c"}, RENAMES, "expected database.collection.field:new"),
        ({RENAMES: "dbA.c1.a.b:a.c"}, RENAMES, "one name"),
        ({RENAMES: "dbA.c1.a:$b"}, RENAMES, "one name"),
        ({RENAMES: "dbA.c1.a:_id"}, RENAMES, "no other field can become _id"),
        ({RENAMES: "dbA.c1.a:b,dbA.c1.a:c"}, RENAMES, "dbA.c1.a:b gives this field another new name"),
        ({EXCLUDE: "dbA.c1._id"}, EXCLUDE, "by which rows are found"),
        ({EXCLUDE: "dbA.c1._id.part"}, EXCLUDE, "by which rows are found"),
        ({RENAMES: "dbA.c1._id:id"}, RENAMES, "by which rows are found"),
        ({HASH: "dbA.c1._id", SALT: SECRET}, HASH, "by which rows are found"),
        ({EXCLUDE: "dbA.c1.*.b"}, EXCLUDE, "name each field"),
        ({EXCLUDE: "dbA.c[12].name"}, EXCLUDE, "is no regular expression"),
        ({EXCLUDE: "db(A|B).c1.name"}, EXCLUDE, "is no regular expression"),
        ({HASH: "dbA.c1.name"}, SALT, "a secret of at least 16 characters"),
        ({HASH: "dbA.c1.name", SALT: "short"}, SALT, "a secret of at least 16 characters"),
        (
            {HASH: "dbA.c1.a", EXCLUDE: "dbA.c1.a.b", SALT: SECRET},
            EXCLUDE,
            "hashes what this field is part of",
        ),
        ({HASH: "dbA.c1.a,dbA.c1.a.b", SALT: SECRET}, HASH, "hashes what this field is part of"),
    ],
)
def test_what_is_refused(options: Mapping[str, str], option: str, why: str) -> None:
    """The option, the entry, and what is wrong with it; never the salt."""
    with pytest.raises(FieldRuleError, match=why) as caught:
        FieldRules.parse(options)
    assert caught.value.option == option
    if option == SALT:
        assert "short" not in str(caught.value)
    else:
        assert caught.value.entry is not None


@pytest.mark.parametrize(
    "options",
    [
        {EXCLUDE: "dbA.c1.name"},
        {EXCLUDE: "  dbA.c1.name"},
        {EXCLUDE: " dbA.c1.name , dbA.c1.a.b , *.c-2.new-name "},
        {EXCLUDE: ""},
        {RENAMES: "dbA.c1.name:new_name"},
        {RENAMES: "  dbA.c1.name:new_name"},
        {RENAMES: " dbA.c1.name:new_name , *.c-2.new-name:new-er "},
        {RENAMES: "dbA.c1.a:b,dbA.c1.b:a"},
        {RENAMES: "dbA.c1.a:b,dbA.c1.a:b"},
        {HASH: "dbA.c1.email", SALT: SECRET, RENAMES: "dbA.c1.email:contact"},
    ],
)
def test_what_is_accepted(options: Mapping[str, str]) -> None:
    """Spaces around entries, names with dashes, exchanged names, a hash under another name."""
    FieldRules.parse(options)


def test_entries_that_meet_in_a_collection_are_refused_there() -> None:
    """Two entries may be about collections that overlap; that shows where they do."""
    found = rules(field__renames="*.c1.a:b,dbA.*.a:c")
    assert found.of(Namespace("dbB", "c1")) is not None
    with pytest.raises(FieldRuleError, match=r"\*\.c1\.a:b gives this field another new name"):
        found.of(C1)


@pytest.mark.parametrize(("path", "key"), [("a", "a"), ("a", "a.b"), ("a.b", "a.b"), ("a.b.c", "a.b")])
def test_a_shard_key_is_left_alone(path: str, key: str) -> None:
    """Neither the field nor a part of it, nor what it is part of."""
    with pytest.raises(FieldRuleError, match=f"is sharded by {key}"):
        of(field__exclude__list=f"dbA.c1.{path}").check((key,))
    of(field__exclude__list=f"dbA.c1.{path}").check(("ab", "b"))


def test_signals_have_no_rules() -> None:
    """Nor has the collection beside them that says what became of them."""
    found = rules(field__exclude__list="*.*.data", signal__data__collection="db.signals")
    assert found.of(Namespace("db", "signals")) is None
    assert found.of(Namespace("db", "signals_status")) is None
    assert found.of(Namespace("db", "orders")) is not None


def test_a_salt_is_not_shown() -> None:
    """By nothing that may be printed."""
    found = rules(engine__field__hash__list="dbA.c1.a", engine__field__hash__salt=SECRET)
    mine = found.of(C1)
    assert mine is not None
    for text in (repr(found), str(found), repr(mine), found.to_text()):
        assert SECRET not in text


def test_rules_differ_by_what_becomes_of_a_document() -> None:
    """By a path, a new name or the salt; not by the order of entries, by how a collection is named, or by what is said
    of other collections. What is kept to compare with survives as text."""
    some = rules(field__exclude__list="dbA.c1.a,dbA.c1.b")
    same = [
        rules(field__exclude__list="*.c1.b , *.*.a"),
        rules(field__exclude__list="dbA.c1.b,dbA.c1.a,dbA.other.c"),
    ]
    assert [one.differ(some.to_text(), C1) for one in same] == [False, False]
    hashed = rules(engine__field__hash__list="dbA.c1.a", engine__field__hash__salt=SECRET)
    resalted = rules(engine__field__hash__list="dbA.c1.a", engine__field__hash__salt=SECRET + "2")
    nothing = rules()
    different = [
        some,
        nothing,
        rules(field__renames="dbA.c1.a:b"),
        rules(field__renames="dbA.c1.a:c"),
        hashed,
        resalted,
    ]
    for one in different:
        for other in different:
            assert one.differ(other.to_text(), C1) == (one is not other)
            assert not one.differ(other.to_text(), Namespace("dbB", "c2"))
    assert nothing.to_text() == ""


def test_what_the_server_is_asked_to_leave_out() -> None:
    """No path below another one, which collide, and none that a projection may not have."""
    found = of(field__exclude__list="dbA.c1.a.b,dbA.c1.a,dbA.c1.x.y,dbA.c1.$b,dbA.c1.c.$d")
    assert projection(found) == {"a": 0, "x.y": 0}
    assert projection(of(field__renames="dbA.c1.a:b")) is None


def test_an_engine_reads_the_options() -> None:
    """Problems are told with all others, by option and entry; lists may have several lines of a file's list; the salt
    is masked; and what changes nothing, or leaves MongoDB all the same, is said at the start."""
    found = problems({EXCLUDE: "shop.orders", HASH: "shop.people.mail"})
    assert "expected database.collection.field" in found[EXCLUDE]
    settings = made(
        **{
            EXCLUDE: ["shop.people.ssn", "*.*.$x"],
            HASH: "shop.people.mail",
            SALT: SECRET,
            "filters.match.mode": "literal",
        }
    )
    mine = FieldRules.parse(settings.source_options()).of(Namespace("shop", "people"))
    assert mine is not None
    assert [rule.dotted for rule in mine.rules] == ["ssn", "$x", "mail"]
    masked = settings.masked()
    assert masked[EXCLUDE] == "shop.people.ssn,*.*.$x"
    assert SECRET not in str(masked)
    assert [warning for warning in settings.warnings if "leave MongoDB" in warning and "*.*.$x" in warning]
    (warning,) = made(**{SALT: SECRET}).warnings
    assert SALT in warning
    assert SECRET not in warning
