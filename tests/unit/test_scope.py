"""What is captured: lists, levels, the signal collection, and what is refused."""

from __future__ import annotations

import pytest

from streaming.namespaces import Namespace
from streaming.scope.scope import CaptureScope, Level, ScopeError, split_list


def captured(options: dict[str, str], *names: str) -> list[str]:
    scope = CaptureScope.parse(options)
    return [name for name in names if scope.captures(Namespace.parse(name))]


def test_without_lists_everything_but_the_internal_is_captured() -> None:
    """admin, local, config and system collections are never captured."""
    names = ("shop.orders", "admin.x", "local.oplog.rs", "config.shards", "shop.system.views", "a.b.c")
    assert captured({}, *names) == ["shop.orders", "a.b.c"]


def test_temporary_collections_of_the_server_are_never_captured() -> None:
    """In which ``$out``, ``mapReduce`` and copies are made, before a rename gives them their name."""
    names = (
        *("shop.tmp.agg_out.1f0c", "shop.tmp.mr.orders_0", "shop.tmpAb3xZ.renameCollection"),
        *("shop.tmpAb3xZ.convertToCapped.orders", "shop.tmp", "shop.tmp.orders", "shop.x.tmp.agg_out.1"),
    )
    assert captured({}, *names) == ["shop.tmp", "shop.tmp.orders", "shop.x.tmp.agg_out.1"]


def test_a_regular_expression_has_to_match_the_whole_name() -> None:
    """Neither a prefix nor a suffix of a name is enough."""
    options = {"collection.include.list": r"shop\.order"}
    assert captured(options, "shop.order", "shop.orders", "workshop.order") == ["shop.order"]


def test_an_alternative_is_anchored_too() -> None:
    """``a|b`` does not mean "begins with a, or ends with b"."""
    options = {"database.include.list": "shop|crm"}
    assert captured(options, "shop.x", "shopping.x", "mycrm.x", "crm.x") == ["shop.x", "crm.x"]


def test_regular_expressions_do_not_mind_the_case() -> None:
    """As in Debezium; ``(?-i:...)`` minds it."""
    assert captured({"database.include.list": "SHOP"}, "shop.x") == ["shop.x"]
    assert captured({"database.include.list": "(?-i:SHOP)"}, "shop.x", "SHOP.x") == ["SHOP.x"]


def test_literals_mind_the_case_and_know_no_wildcards() -> None:
    """A dot in a literal is a dot."""
    options = {"filters.match.mode": "literal", "collection.include.list": "shop.orders,a.b(c"}
    names = ("shop.orders", "shop.Orders", "shop.orders2", "a.b(c")
    assert captured(options, *names) == ["shop.orders", "a.b(c"]


def test_exclude_lists_take_away() -> None:
    """What an exclude list names is not captured, all else is."""
    options = {"database.exclude.list": "tmp.*", "collection.include.list": r".*\.orders"}
    assert captured(options, "tmp1.orders", "shop.orders", "shop.x") == ["shop.orders"]
    assert captured({"collection.exclude.list": r"shop\.tmp_\d+"}, "shop.tmp_1", "shop.tmp_x") == [
        "shop.tmp_x"
    ]


def test_database_and_collection_lists_both_have_to_agree() -> None:
    """A collection list does not bring back an excluded database."""
    options = {"database.include.list": "shop", "collection.include.list": r"crm\.people,shop\.orders"}
    assert captured(options, "crm.people", "shop.orders", "shop.other") == ["shop.orders"]


def test_the_signal_collection_is_always_captured_and_widens_nothing() -> None:
    """Not listed, or even excluded, it is captured; its database is not."""
    for lists in ({"database.include.list": "shop"}, {"collection.exclude.list": r"ops\..*"}):
        options = {"signal.data.collection": "ops.signals", **lists}
        assert captured(options, "ops.signals", "ops.other") == ["ops.signals"]


@pytest.mark.parametrize(
    ("scope", "target"), [("database", "shop"), ("collection", "shop.orders")], ids=["database", "collection"]
)
def test_a_signal_collection_outside_the_scope_is_refused(scope: str, target: str) -> None:
    """No signal would ever be seen; the message names all options in question."""
    options = {"capture.scope": scope, "capture.target": target, "signal.data.collection": "ops.signals"}
    with pytest.raises(ScopeError, match=r"signal\.data\.collection='ops\.signals'.*capture\.target='shop"):
        CaptureScope.parse(options)


def test_levels() -> None:
    """A target narrows what is watched; a collection's name may hold dots."""
    options = {"capture.scope": "collection", "capture.target": "shop.orders.2024"}
    scope = CaptureScope.parse(options)
    assert (scope.level, scope.database, scope.collection) == (Level.COLLECTION, "shop", "orders.2024")
    assert captured(options, "shop.orders.2024", "shop.orders") == ["shop.orders.2024"]
    assert captured({"capture.scope": "database", "capture.target": "shop"}, "shop.a", "crm.a") == ["shop.a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capture.scope": "cluster"}, r"capture\.scope='cluster': expected one of deployment"),
        ({"capture.scope": "database"}, r"capture\.target='': .*needs a database's name"),
        ({"capture.scope": "database", "capture.target": "a.b"}, r"capture\.target='a\.b'"),
        (
            {"capture.scope": "collection", "capture.target": "a"},
            r"capture\.target='a'.*database\.collection",
        ),
        ({"capture.target": "shop"}, r"capture\.target='shop' needs capture\.scope"),
        ({"filters.match.mode": "glob"}, r"filters\.match\.mode='glob': expected regex or literal"),
        ({"signal.data.collection": "signals"}, r"signal\.data\.collection='signals'"),
        ({"signal.data.collection": "admin.signals"}, r"signal\.data\.collection='admin\.signals'"),
        ({"database.include.list": "a(b"}, r"database\.include\.list: 'a\(b' is not a regular expression"),
        (
            {"database.include.list": "a", "database.exclude.list": "b"},
            r"include.*exclude.*exclude each other",
        ),
        (
            {"collection.include.list": "a", "filters.match.mode": "literal"},
            r"collection\.include\.list.*'a'",
        ),
    ],
)
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    """Each message names the option, its value, and what is expected."""
    with pytest.raises(ScopeError, match=message):
        CaptureScope.parse(options)


def test_lists_are_separated_by_commas_outside_brackets() -> None:
    """A quantifier's comma does not separate, nor does an escaped one; blanks around entries do not count."""
    assert split_list(r" a\.b{1,2} , c[,]d ,, e\,f ") == (r"a\.b{1,2}", "c[,]d", "e,f")
    assert split_list(r"a\\,b\(,c") == (r"a\\", r"b\(", "c")


def test_the_server_is_given_anchored_expressions() -> None:
    """The stage holds the same lists as the predicate; integration tests hold the two against each other."""
    stage = CaptureScope.parse({"database.include.list": "shop,crm"}).match_stage()
    first = stage["$match"]["$or"][0]
    assert first["$expr"]["$and"][0]["$regexMatch"]["regex"] == r"(*UCP)\A(?:(?:shop)|(?:crm))\z"
    assert "invalidate" not in first["operationType"]["$in"]


def test_without_lists_the_server_filters_operations_only() -> None:
    """No expression has to be evaluated for each event."""
    stage = CaptureScope.parse({}).match_stage()
    assert set(stage["$match"]) == {"operationType"}


@pytest.mark.parametrize(
    ("options", "known", "names"),
    [
        ({"collection.include.list": r"shop\.orders,shop.items"}, [], ["shop.orders", "shop.items"]),
        ({"collection.include.list": r"shop\.a\-b,shop\.o.*"}, [], ["shop.a-b"]),
        (
            {"collection.include.list": r"shop.a\-b,shop.c", "filters.match.mode": "literal"},
            ["shop.c"],
            ["shop.c"],
        ),
        ({"collection.include.list": r"shop\.o\w+"}, ["shop.orders", "shop.items"], ["shop.orders"]),
        ({"database.include.list": "shop"}, ["shop.orders", "crm.orders"], ["shop.orders"]),
        ({"collection.exclude.list": r"shop\.x"}, ["shop.x", "shop.x2"], ["shop.x2"]),
        (
            {"collection.include.list": r"shop\..*", "signal.data.collection": "ops.signals"},
            ["shop.orders", "ops.signals", "ops.signals_status"],
            ["ops.signals", "shop.orders"],
        ),
    ],
    ids=["names", "escaped", "literal", "expression", "databases", "excluded", "signals"],
)
def test_names_are_compared_before_expressions(
    options: dict[str, str], known: list[str], names: list[str]
) -> None:
    """The signal collection, those that recent batches had, and the lists' own, in this order, but only what is
    captured; a list of names is one already."""
    scope = CaptureScope.parse(options)
    arms = scope.match_stage(map(Namespace.parse, known))["$match"]["$or"][0]["$expr"]["$or"]
    assert [name["$literal"] for name in arms[0]["$in"][1]] == names
    assert "$and" in arms[1]


@pytest.mark.parametrize(
    "lists", [{}, {"database.include.list": "ops"}, {"collection.include.list": r"ops\.signals.*"}]
)
def test_the_status_collection_is_never_captured(lists: dict[str, str]) -> None:
    """The collection beside the signal collection holds the engine's own words, whatever the lists say. Without a
    signal collection its name means nothing."""
    options = {"signal.data.collection": "ops.signals", **lists}
    assert captured(options, "ops.signals", "ops.signals_status") == ["ops.signals"]
    assert captured(lists, "ops.signals_status") == ["ops.signals_status"]


def test_the_server_keeps_back_the_status_collection_but_not_its_renames() -> None:
    """A rename of it may be one to a captured name. No expression has to be evaluated for it."""
    match = CaptureScope.parse({"signal.data.collection": "ops.signals"}).match_stage()["$match"]
    place = {"db": "ops", "coll": "signals_status"}
    assert match["$or"] == [{"ns": {"$ne": place}}, {"operationType": "rename"}]
