"""`streaming.layouts.columns.decimals`: the scale of a column of decimals, as observations choose it."""

from __future__ import annotations

from decimal import Decimal

import bson
from bson import Decimal128
from hypothesis import given
from hypothesis import strategies as st

from streaming.canonical.documents import canonical_document
from streaming.layouts.columns.canonical_rows import canonical_rows
from streaming.layouts.columns.decimals import DECIMALS, SCALES, SURE
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.observe import observe
from streaming.layouts.columns.plan import Array, Column, Scalar, Struct, TablePlan

# With and without trailing zeros, at both ends of each scale, and beyond all of them.
numbers = st.builds(
    lambda sign, coefficient, exponent: Decimal((sign, tuple(map(int, str(coefficient))), exponent)),
    st.integers(0, 1),
    st.one_of(st.integers(1, 10**34 - 1), st.integers(1, 99).map(lambda n: n * 10**6)),
    st.integers(-24, 6),
)
some_numbers = st.lists(numbers, min_size=1, max_size=6)


def raw_of(values: list[Decimal]) -> bytes:
    return b"".join(bson.encode({"_id": n, "price": Decimal128(value)}) for n, value in enumerate(values))


def scale_of(plan: TablePlan) -> int:
    (kind,) = (c.type.kind for c in plan.columns if c.name == "price" and isinstance(c.type, Scalar))
    return DECIMALS[kind]


def digits_of(value: Decimal) -> int:
    """By its text, in which trailing zeros say nothing."""
    _, _, behind = f"{value:f}".partition(".")
    return len(behind.rstrip("0"))


def is_rescued(plan: TablePlan, values: list[Decimal]) -> list[bool]:
    raw = raw_of(values)
    batch = Decoder(plan).decode(raw).batch
    documents = [bson.encode({"_id": n, "price": Decimal128(value)}) for n, value in enumerate(values)]
    assert canonical_rows(plan, batch) == [canonical_document(one) for one in documents]
    return [text is not None for text in batch.column("_rescued_data").to_pylist()]


@given(values=some_numbers)
def test_many_values_choose_the_smallest_scale_that_holds_them(values: list[Decimal]) -> None:
    """What needs more digits than any scale has is no reason for a larger one: it is rescued in either."""
    plan = observe(raw_of(values * SURE))
    needed = [digits for value in values if (digits := digits_of(value)) <= SCALES[-1]]
    assert scale_of(plan) == min(scale for scale in SCALES if scale >= max(needed, default=0))


@given(values=some_numbers)
def test_few_values_choose_one_step_more(values: list[Decimal]) -> None:
    """For those that come may need more; at 18 digits that is all."""
    many, few = scale_of(observe(raw_of(values * SURE))), scale_of(observe(raw_of(values)))
    assert few == SCALES[min(SCALES.index(many) + 1, len(SCALES) - 1)]


@given(values=some_numbers, many=st.booleans())
def test_a_chosen_scale_takes_what_18_digits_would(values: list[Decimal], many: bool) -> None:
    """Of the values that it was chosen by; nothing is rounded, and nothing is lost."""
    chosen = observe(raw_of(values * (SURE if many else 1)))
    before = TablePlan((Column("_id", Scalar("long")), Column("price", Scalar("decimal"))))
    rescued = zip(is_rescued(chosen, values), is_rescued(before, values), strict=True)
    assert not [now for now, then in rescued if now and not then]


@given(first=some_numbers, second=some_numbers)
def test_a_table_keeps_its_scale(first: list[Decimal], second: list[Decimal]) -> None:
    """Whatever comes later: what does not fit is rescued whole. Of observations the finer one counts, in any order."""
    one, other = (observe(raw_of(values)) for values in (first, second))
    assert one.merge(other) is one
    assert one.joined(other) == other.joined(one)
    assert scale_of(one.joined(other)) == max(scale_of(one), scale_of(other))
    scale = scale_of(one)
    fits = [digits_of(value) <= scale and abs(value) < Decimal(10) ** (38 - scale) for value in second]
    assert is_rescued(one, second) == [not there for there in fits]


def test_scales_are_chosen_inside_documents_and_arrays() -> None:
    """Each place has its own, also in a table that gets the columns later."""
    price, rate = Decimal128("19.99"), Decimal128("0.12345678")
    document = bson.encode({"_id": 1, "lines": [{"price": price, "rates": [rate]}]})
    inner = Struct(
        (Column("price", Scalar("decimal(38,2)")), Column("rates", Array(Scalar("decimal(38,9)"))))
    )
    wanted = (Column("_id", Scalar("long")), Column("lines", Array(inner)))
    assert observe(document * SURE).columns == wanted
    assert {*Decoder(TablePlan()).decode(document * SURE).unknown.columns} == {*wanted}
    assert wanted[1].ddl == ("`lines` ARRAY<STRUCT<`price`: DECIMAL(38,2), `rates`: ARRAY<DECIMAL(38,9)>>>")


def test_a_column_of_an_earlier_version_has_18_digits() -> None:
    """By the text that its table's property holds, which stays as it is."""
    text = '{"version":1,"columns":[{"name":"_id","type":"long"},{"name":"price","type":"decimal"}]}'
    plan = TablePlan.from_json(text)
    assert (scale_of(plan), plan.to_json()) == (18, text)
    assert plan.merge(observe(raw_of([Decimal("19.99")] * SURE))) is plan
    assert not any(is_rescued(plan, [Decimal("0.123456789012345678")]))


def test_numbers_of_other_types_have_no_say() -> None:
    """A field of few decimals among many whole numbers is a column of whole numbers."""
    raw = raw_of([Decimal("1.5")]) + b"".join(bson.encode({"_id": n, "price": n}) for n in range(9))
    assert observe(raw).columns[1] == Column("price", Scalar("long"))
    assert observe(raw_of([Decimal("NaN"), Decimal("Infinity"), Decimal("-0")])).columns[1] == (
        Column("price", Scalar("decimal(38,4)"))
    )


def test_all_values_of_a_batch_have_a_say() -> None:
    """However many there are: those of few digits come first here, and whole numbers beside them are fewer."""
    prices = [Decimal128("19.99")] * 3_000 + [Decimal128("0.123456")] * 10
    values = [*prices, *[bson.Int64(7)] * 2_000]
    raw = b"".join(bson.encode({"_id": n, "price": value}) for n, value in enumerate(values))
    plan = Decoder(TablePlan()).decode(raw).unknown
    assert scale_of(plan) == 6
