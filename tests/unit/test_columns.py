"""`streaming.layouts.columns.plan` and `streaming.column_names`: plans as values, how they grow, and which names they
take.
"""

from __future__ import annotations

import pytest

from streaming.column_names import OUR_COLUMNS, can_be_column, can_be_nested, quoted
from streaming.layouts.columns.plan import (
    DEPTH_MAX,
    LEAVES_MAX,
    Addition,
    Array,
    Column,
    ColumnType,
    Scalar,
    Struct,
    TablePlan,
    additions,
    plan_of,
    spark_type,
)

LONG, TEXT = Scalar("long"), Scalar("string")
ITEM = Struct((Column("sku", TEXT), Column("qty", LONG)))
ORDERS = TablePlan(
    (Column("_id", Scalar("objectId")), Column("items", Array(ITEM)), Column("total", Scalar("decimal")))
)


def nested(depth: int, leaf: ColumnType = LONG) -> ColumnType:
    return leaf if depth == 1 else Struct((Column("x", nested(depth - 1, leaf)),))


def test_a_plan_survives_json() -> None:
    """to_json and from_json are inverse, and equal plans have equal text."""
    assert TablePlan.from_json(ORDERS.to_json()) == ORDERS
    assert TablePlan.from_json(TablePlan().to_json()) == TablePlan()
    assert "\n" not in ORDERS.to_json()


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"version":2,"columns":[]}',
        '{"version":1,"columns":[{"name":"a","type":"int"}]}',
        '{"version":1,"columns":[{"name":1,"type":"long"}]}',
        '{"version":1,"columns":[{"name":"a","type":{"map":"long"}}]}',
        '{"version":1,"columns":[{"name":"a","type":{"struct":[]}}]}',
        '{"version":1,"columns":[{"name":"_key","type":"long"}]}',
        '{"version":1,"columns":[{"name":"a","type":"long"},{"name":"a","type":"long"}]}',
        '{"version":1,"columns":[],"refused":["a"]}',
        '{"version":1,"columns":[],"refused":[[]]}',
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    """Anything that to_json does not write is an error, never an empty plan."""
    with pytest.raises(ValueError):
        TablePlan.from_json(text)


def test_types_are_written_in_spark_sql() -> None:
    """Names are back-quoted, structs and arrays nest."""
    assert spark_type(Array(ITEM)) == "ARRAY<STRUCT<`sku`: STRING, `qty`: BIGINT>>"
    assert Column("total", Scalar("decimal")).ddl == "`total` DECIMAL(38,18)"
    assert quoted("a`b") == "`a``b`"


def test_merging_adds_columns_and_nested_fields_at_the_end() -> None:
    """Nothing that is there moves or changes, whatever was observed."""
    seen = TablePlan(
        (
            Column("note", TEXT),
            Column("total", TEXT),
            Column("items", Array(Struct((Column("price", LONG), Column("sku", LONG))))),
        )
    )
    grown = ORDERS.merge(seen)
    assert grown.names == ("_id", "items", "total", "note")
    assert grown.columns[1].type == Array(Struct((*ITEM.fields, Column("price", LONG))))
    assert grown.columns[2] == ORDERS.columns[2]
    assert grown.merge(seen) is grown
    assert ORDERS.merge(TablePlan()) is ORDERS


def test_a_name_that_differs_in_case_only_is_not_added() -> None:
    """Spark would not tell the two apart: the first keeps the column, at every level."""
    plan = TablePlan((Column("Name", TEXT), Column("x", Struct((Column("Y", LONG),)))))
    seen = TablePlan((Column("name", LONG), Column("x", Struct((Column("y", TEXT), Column("z", TEXT))))))
    grown = plan.merge(seen)
    assert grown.names == ("Name", "x")
    assert grown.columns[1].type == Struct((Column("Y", LONG), Column("z", TEXT)))


@pytest.mark.parametrize(
    "pair",
    [
        ("ä", "Ä"),
        ("\u212a", "k"),
        ("\u0130", "i"),
        ("\u017f", "S"),
        ("GRÖẞE", "größe"),
        ("İsim", "i̇sim"),
        ("ΑΣ", "ας"),
    ],
)
def test_case_is_folded_beyond_ascii(pair: tuple[str, str]) -> None:
    """As any reader does, or more: the first keeps the column, at every level."""
    fields = tuple(Column(name, LONG) for name in pair)
    assert plan_of(fields).names == pair[:1]
    assert plan_of([Column("x", Struct(fields))]).columns == (Column("x", Struct(fields[:1])),)


def test_a_character_of_the_future_is_in_no_column() -> None:
    """It may be the capital letter of another one, for who knows more of Unicode."""
    assert not can_be_nested("a\u0378")
    assert can_be_nested("ɤ")


def test_a_plan_of_before_may_have_names_that_clash_today() -> None:
    """Its table has both columns, so it is read as it is, and grows on."""
    text = '{"version":1,"columns":[{"name":"strasse","type":"long"},{"name":"straße","type":"long"}]}'
    plan = TablePlan.from_json(text)
    assert plan.names == ("strasse", "straße")
    assert plan.to_json() == text
    assert plan.merge(plan_of([Column("STRASSE", LONG), Column("n", LONG)])).names == (
        "strasse",
        "straße",
        "n",
    )


def test_what_a_table_refused_is_not_added_again() -> None:
    """At any level, by this plan's refusals or the other's; what is beside it is. It survives JSON."""
    seen = ORDERS.merge(plan_of([Column("note", TEXT), Column("x", Struct((Column("y", LONG),)))]))
    left = seen.refuse([("note",), ("items", "element", "qty"), ("x", "y")])
    assert left.names == ("_id", "items", "total")
    assert left.columns[1].type == Array(Struct((Column("sku", TEXT),)))
    assert TablePlan.from_json(left.to_json()) == left
    assert left.merge(seen) is left
    assert TablePlan().merge(left).merge(seen) == left
    more = plan_of([Column("x", Struct((Column("y", LONG), Column("z", LONG)))), Column("note", LONG)])
    assert left.merge(more).columns[3:] == (Column("x", Struct((Column("z", LONG),))),)
    assert left.refuse([("note",)]) == left


@pytest.mark.parametrize(
    "name",
    [*OUR_COLUMNS, "_KEY", "_opaque", "_metadata", "_Commit_Version", "_row_id_", "", "a b", "a.b", "a`b"],
)
def test_some_names_cannot_be_columns(name: str) -> None:
    """Ours, Spark's and Delta's, and what some reader cannot address."""
    assert not can_be_column(name)
    assert plan_of((Column(name, LONG), Column("ok", LONG))).names == ("ok",)
    with pytest.raises(ValueError, match="rescued"):
        TablePlan((Column(name, LONG),))


@pytest.mark.parametrize("name", ["_id", "__v", "_class", "path", "$ref", "Überweg", "a-b", "1", "a:b", "_"])
def test_ordinary_names_can_be_columns(name: str) -> None:
    """Also those that drivers and frameworks write."""
    assert can_be_column(name)


def test_our_names_are_free_inside_documents() -> None:
    """They are taken at the top level only."""
    assert can_be_nested("_key")
    assert not can_be_nested("a,b")
    assert not can_be_nested("\udcff")
    assert not can_be_nested("x" * 300)


def test_a_plan_has_a_limit_of_leaves() -> None:
    """Further fields get no column, however they come; a full plan says so."""
    wide = plan_of(Column(f"c{n}", LONG) for n in range(LEAVES_MAX - 1))
    assert not wide.is_full
    grown = wide.merge(TablePlan((Column("items", Array(ITEM)), Column("late", LONG))))
    assert grown.leaves == LEAVES_MAX
    assert grown.is_full
    assert grown.columns[-1] == Column("items", Array(Struct((Column("sku", TEXT),))))


def test_a_plan_has_a_limit_of_depth() -> None:
    """What lies deeper has no column; a document with only such fields has none."""
    assert plan_of([Column("a", nested(DEPTH_MAX))]).names == ("a",)
    assert plan_of([Column("a", nested(DEPTH_MAX + 1))]).names == ()
    assert plan_of([Column("a", nested(DEPTH_MAX, Array(LONG)))]).names == ()


def test_additions_are_what_alter_table_needs() -> None:
    """Paths go through arrays by `element`."""
    grown = ORDERS.merge(
        TablePlan((Column("items", Array(Struct((Column("price", LONG),)))), Column("tags", Array(TEXT))))
    )
    found = additions(ORDERS, grown)
    assert found == (Addition(("items", "element", "price"), LONG), Addition(("tags",), Array(TEXT)))
    assert found[0].ddl == "`items`.`element`.`price` BIGINT"
    assert additions(grown, grown) == ()


@pytest.mark.parametrize(
    "other",
    [
        TablePlan(),
        TablePlan((Column("_id", LONG), *ORDERS.columns[1:])),
        TablePlan((ORDERS.columns[1], ORDERS.columns[0], ORDERS.columns[2])),
    ],
)
def test_additions_of_a_plan_that_did_not_grow_from_the_other_are_refused(other: TablePlan) -> None:
    """A column removed, changed or moved is an error that names it."""
    with pytest.raises(ValueError, match="_id"):
        additions(ORDERS, other)
