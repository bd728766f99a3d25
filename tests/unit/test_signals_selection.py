"""Which collections the patterns of a signal mean."""

from __future__ import annotations

import pytest

from signals.matching.patterns import BadPattern
from signals.matching.selection import expand, matches_name, named_collection, unmatched

NAMES = ("shop.customers", "shop.orders", "shop.orders.2024", "shop.ordersx2024", "shopXorders.a", "shop.a+b")


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        ("shop.orders", ("shop.orders",)),
        ("shop.orders.2024", ("shop.orders.2024",)),
        ('shop."orders.2024"', ("shop.orders.2024",)),
        ('"shop.orders"', ("shop.orders",)),
        (r"shop\.orders.*", ("shop.orders", "shop.orders.2024", "shop.ordersx2024")),
        ('shop.("a+b"|customers)', ("shop.customers", "shop.a+b")),
        ("shop.a+b", ("shop.a+b",)),
        (".*", NAMES),
        ("SHOP.ORDERS", ("SHOP.ORDERS",)),
        ("orders", ()),
        ("shop.missing", ("shop.missing",)),
        ("shop.missing.*", ()),
        ('shop."a+c"', ("shop.a+c",)),
        ("shop.", ()),
        (".shop", ()),
    ],
)
def test_a_pattern_selects(pattern: str, selected: tuple[str, ...]) -> None:
    """Whole matches, with regard to case; an existing name means itself; a plain unknown name is kept."""
    assert expand([pattern], NAMES) == selected


def test_a_text_that_is_no_expression_can_be_a_name() -> None:
    """A name that exists needs no quotes; where none exists the text is refused, and quotes are advised."""
    assert expand(["shop.c++", 'shop."(x"'], ["shop.c++", "shop.(x"]) == ("shop.c++", "shop.(x")
    with pytest.raises(BadPattern, match=r"'shop.\(x'.*missing \).*double quotes"):
        expand(["shop.(x"], NAMES)
    with pytest.raises(BadPattern, match=r"'shop.x\+\+'"):
        unmatched(["shop.x++"], NAMES)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("shop.orders", "shop.orders"),
        ("shop.orders.2024", "shop.orders.2024"),
        ('shop."a+b (1)"', "shop.a+b (1)"),
        ('"shop.orders"', "shop.orders"),
        ("shop.a+b", None),
        ("shop.*", None),
        ("orders", None),
        ("shop.", None),
        (".orders", None),
    ],
)
def test_one_collection_is_named(pattern: str, name: str | None) -> None:
    """Without a sign of an expression outside of double quotes, a text names one collection."""
    assert named_collection(pattern) == name


def test_order_and_repetition() -> None:
    """In the order of the patterns, then of the names; each name once."""
    assert expand(["shop.orders", "shop.(c|o)[a-z]+"], NAMES) == ("shop.orders", "shop.customers")


def test_what_matches_nothing_is_reported() -> None:
    """A plain name that does not exist and a regular expression without a match are both named."""
    patterns = ["shop.orders", "shop.missing", "nothing.*"]
    assert unmatched(patterns, NAMES) == ("shop.missing", "nothing.*")


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("shop.orders", "SHOP.Orders", True),
        ("shop.o.*", "shop.orders", True),
        ("shop.o.*", "SHOP.Orders", True),
        ("orders", "shop.orders", False),
        ('shop."a+b"', "shop.a+b", True),
        ("shop.(", "shop.x", False),
    ],
)
def test_a_condition_names_collections_without_regard_to_case(
    pattern: str, name: str, expected: bool
) -> None:
    """The ``data-collection`` of a condition is a whole match without regard to case."""
    assert matches_name(pattern, name) is expected
