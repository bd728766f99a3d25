"""Hypothesis strategies for raw BSON ids: all types, and crowded where the order is delicate."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal

from hypothesis import strategies as st

from tests.support import raw_bson as b

_EDGE_DOUBLES = (
    *(0.0, -0.0, 0.1, 0.5, 1.0, 1e15, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e20, 1e21, 1e22, 1e23),
    *(5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, float("nan"), float("inf"), float("-inf")),
)

doubles = st.one_of(st.sampled_from(_EDGE_DOUBLES), st.floats(), st.integers(-50, 50).map(lambda n: n / 4))
int64s = st.one_of(
    st.integers(-20, 20),
    st.integers(-(2**63), 2**63 - 1),
    st.builds(lambda power, off: 2**power + off, st.integers(30, 62), st.integers(-2, 2)),
    st.builds(
        lambda power, off, sign: sign * (10**power + off),
        st.integers(0, 18),
        st.integers(-1, 1),
        st.sampled_from((1, -1)),
    ),
)


def _decimals_of(value: Decimal) -> st.SearchStrategy[b.Value]:
    """The decimals next to an exact value: rounded down and up to 34 digits, in several cohorts."""
    rounded = st.sampled_from((ROUND_DOWN, ROUND_UP)).map(lambda mode: Context(34, mode).plus(value))
    return st.builds(_cohort, rounded, st.integers(0, 33))


def _cohort(value: Decimal, zeros: int) -> b.Value:
    sign, digits, exponent = value.as_tuple()
    coefficient, exponent = int("".join(map(str, digits))), int(exponent)
    zeros = min(zeros, 34 - len(str(coefficient)), exponent + 6176)
    return b.decimal128((-1 if sign else 1) * coefficient * 10**zeros, exponent - zeros)


decimals = st.one_of(
    st.builds(b.decimal128, st.integers(-(10**34) + 1, 10**34 - 1), st.integers(-6176, 6111)),
    st.builds(b.decimal128, st.integers(-1000, 1000), st.integers(-5, 5)),
    st.builds(b.decimal128, st.integers(-1000, 1000), st.sampled_from((-6176, -6175, -6143, 6111, 6110))),
    doubles.filter(lambda x: x - x == 0 and x != 0).flatmap(lambda x: _decimals_of(Decimal(x))),
    int64s.flatmap(lambda n: _decimals_of(Decimal(n))),
    st.sampled_from((b.decimal128_special(0x7C), b.decimal128_special(0xFC), b.decimal128_special(0x7C, 5))),
    st.sampled_from((b.decimal128_special(0x78), b.decimal128_special(0xF8), b.decimal128_special(0x80))),
    st.sampled_from(
        (b.decimal128_special(0x60, 7), b.decimal128_special(0x30, 2**113 - 1))
    ),  # non-canonical: zero
)
numbers = st.one_of(
    doubles.map(b.double), int64s.map(b.int64), st.integers(-(2**31), 2**31 - 1).map(b.int32), decimals
)

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.text('ab\0\x01 !"#$~\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010fffe\U0010ffff', max_size=4),
)
text_bytes = st.one_of(
    texts.map(str.encode),
    st.lists(
        st.sampled_from(
            [
                b"a",
                b"\x7f",
                b"\x80",
                b"\xc2",
                b"\xed\xa0\x80",
                b"\xf4\x8f\xbf\xbf",
                b"\xf5",
                b"\xff",
                "é".encode(),
            ]
        ),
        max_size=4,
    ).map(b"".join),
)
_names = st.text("ab!#~é", max_size=2)
_scalars = st.one_of(
    numbers,
    st.sampled_from((b.MIN_KEY, b.NULL, b.MAX_KEY, b.boolean(False), b.boolean(True))),
    text_bytes.map(b.string),
    text_bytes.map(b.symbol),
    st.builds(b.binary, st.binary(max_size=3), st.sampled_from((0, 1, 2, 3, 4, 5, 0x80, 0xFF))),
    st.builds(b.binary, st.binary(min_size=15, max_size=17), st.sampled_from((0, 3, 4))),
    st.binary(min_size=12, max_size=12).map(b.object_id),
    st.sampled_from((-(2**63), -1, 0, 1, 2**62, 2**63 - 1)).map(b.date),
    st.integers(-(2**63), 2**63 - 1).map(b.date),
    st.builds(b.timestamp, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    st.builds(b.db_pointer, st.text("ab.", max_size=3), st.binary(min_size=12, max_size=12)),
    text_bytes.map(b.code),
)
_nested_only = st.one_of(
    st.just(b.UNDEFINED), st.builds(b.regex, st.text("ab", max_size=2), st.text("im", max_size=1))
)


def _fields(values: st.SearchStrategy[b.Value]) -> st.SearchStrategy[list[tuple[str, b.Value]]]:
    return st.lists(st.tuples(_names, values), max_size=3)


def _composite(values: st.SearchStrategy[b.Value]) -> st.SearchStrategy[b.Value]:
    return st.one_of(
        _fields(values).map(lambda fields: b.embedded(*fields)),
        st.lists(values, max_size=3).map(lambda items: b.array(*items)),
        st.builds(lambda text, fields: b.code_with_scope(text, *fields), text_bytes, _fields(values)),
    )


_small = st.one_of(st.integers(-2, 2).map(b.int32), st.sampled_from("ab").map(b.string), _nested_only)
values = st.recursive(st.one_of(_scalars, _small), _composite, max_leaves=6)
"""Any BSON value, also those that only occur inside an id."""

embedded_ids = _fields(values).map(lambda fields: b.embedded(*fields))
ids = st.one_of(
    _scalars,
    embedded_ids,
    st.builds(lambda text, fields: b.code_with_scope(text, *fields), text_bytes, _fields(values)),
)
"""Any value that the server takes for an `_id`."""
