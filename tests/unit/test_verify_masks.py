"""`snapshotter.verification.verify`: which paths of a difference show no values."""

from __future__ import annotations

import pytest

from snapshotter.verification.verify import _covered
from streaming.fields.rules import CollectionRules, FieldRules
from streaming.fields.shape import NO_SHAPE, Shape
from streaming.namespaces import Namespace

FLAT, ARRAYS, BOTH = Shape(flatten=True), Shape(arrays=True), Shape(flatten=True, arrays=True)


def rules(*paths: str) -> CollectionRules:
    entries = ",".join(f"shop.orders.{path}" for path in paths)
    found = FieldRules.parse({"field.exclude.list": entries}).of(Namespace("shop", "orders"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("shape", "path", "hidden"),
    [
        (NO_SHAPE, ["home", "ssn"], True),
        (NO_SHAPE, ["lines", "0", "sku"], True),
        (NO_SHAPE, ["home", "city"], False),
        (FLAT, ["home_ssn"], True),
        (FLAT, ["home_ssn_last"], True),
        (FLAT, ["home_ssns"], False),
        (FLAT, ["home_city"], False),
        (FLAT, ["odd_name_part"], True),
        (FLAT, ["lines", "0", "sku"], True),
        (ARRAYS, ["lines", "_0", "sku"], True),
        (ARRAYS, ["lines", "_0", "_1", "sku"], True),
        (ARRAYS, ["lines", "_0", "price"], False),
        (BOTH, ["lines__0_sku"], True),
        (BOTH, ["lines__0__1_sku"], True),
        (BOTH, ["lines__0_price"], False),
    ],
)
def test_values_that_are_left_out_are_not_shown(shape: Shape, path: list[str], hidden: bool) -> None:
    """Under the names that they have in a row of this shape."""
    assert _covered(path, rules("home.ssn", "lines.sku", "odd_name.part"), shape) == hidden
