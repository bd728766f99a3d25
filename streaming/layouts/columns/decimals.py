"""The columns of decimals: which scales they may have, and how one is chosen.

A Decimal128 has its point anywhere in 34 digits; a column has it in one place, for good. So the scale is chosen when
the column is made, by the values that were seen then, and never altered: what needs more digits behind the point is
rescued. One for all would be 18 digits, the finest unit in use (wei), and every price would end in sixteen zeros.

Few values tell little (`5`, where `19.99` comes next), and a column that is too coarse leaves its values out of every
sum: then one step more is taken. A column of an earlier version has 18 digits; its kind has no number in it.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

PRECISION = 38
SCALES = (2, 4, 6, 9, 12, 18)
SURE = 100
"""So many values tell how many digits the others need."""


def _kind(scale: int) -> str:
    return "decimal" if scale == SCALES[-1] else f"decimal({PRECISION},{scale})"


DECIMALS: Mapping[str, int] = {_kind(scale): scale for scale in SCALES}
"""Scalar kind -> digits behind the point."""


def kind_for(digits: int, values: int) -> str:
    """The kind of a column for so many ``values`` that need so many ``digits`` behind the point at most."""
    at = next((place for place, scale in enumerate(SCALES) if scale >= digits), len(SCALES) - 1)
    return _kind(SCALES[at if values >= SURE else min(at + 1, len(SCALES) - 1)])


def finer(one: str, other: str) -> str:
    """Of two kinds of decimals the one with more digits behind the point."""
    return max(one, other, key=lambda kind: DECIMALS[kind])
