"""Numbers inside keys: int32, int64, double and decimal128 on one line, compared exactly.

MongoDB takes 1, NumberLong(1), 1.0 and NumberDecimal("1.00") for one id, and compares a double with a decimal
by their exact values (0.1 is above NumberDecimal("0.1"); tried on the server, index and `$expr` agree). So
a number is written by its decimal digits, whatever type carries it: a class character, then the digits.

    B NaN             Z zero                      a-t magnitudes of 1 to 20 integer digits: "b42", "b42.5"
    C -Infinity       _ positive below 1:         u   21 integer digits and more: their count (4), the digits
    D-Y mirror of _-u   6175 + exponent, digits   v   Infinity

- The class orders by magnitude; within one, digits compare as text because they are aligned at the decimal
  point. Trailing zeros are dropped (behind the point), so that equal numbers give equal text.
- A negative number is its magnitude with class and digits mirrored (9 for 0), and "~" behind, because there
  the longer comes first: -42.5 is "W57.4~", below -42, "W57~".
- A double may have 767 digits. Decimals have at most 34, so 34 tell it from every decimal and every other
  double; "+" says that more would follow, and puts it just above the decimal of these 34 digits.

Pure: standard library only.
"""

from __future__ import annotations

from decimal import Decimal
from math import isinf, isnan

NAN, ZERO, INFINITY, MINUS_INFINITY = "B", "Z", "v", "C"
_SMALL, _HUGE = "_", "u"
_ALIGNED = "?abcdefghijklmnopqrst"
_ALIGNED_MAX = len(_ALIGNED) - 1
_PRECISION = 34
_SMALLEST_POINT = -6175
_MIRROR = str.maketrans("0123456789_abcdefghijklmnopqrstu", "9876543210YXWVUTSRQPONMLKJIHGFED")


def number_of_int(value: int) -> str:
    """42 -> ``"b42"``, -42 -> ``"W57~"``; for integers of at most 34 significant digits."""
    if not value:
        return ZERO
    digits = str(abs(value))
    text = (
        _ALIGNED[len(digits)] + digits
        if len(digits) <= _ALIGNED_MAX
        else _unaligned(digits.rstrip("0"), len(digits))
    )
    return text if value > 0 else text.translate(_MIRROR) + "~"


def number_of_double(value: float) -> str:
    """The exact value of a double; NaN has one key, and -0.0 is zero."""
    if isnan(value):
        return NAN
    if isinf(value):
        return INFINITY if value > 0 else MINUS_INFINITY
    if value.is_integer() and abs(value) < 1e18:
        return number_of_int(int(value))
    sign, figures, exponent = Decimal(value).as_tuple()
    return _number(sign, "".join(map(str, figures)), int(exponent))


def number_of_decimal128(payload: bytes) -> str:
    """The value of a BSON decimal128 (16 bytes, binary integer decimal, little-endian).

    Encodings that the standard calls non-canonical are zero, as the server reads them.
    """
    bits = int.from_bytes(payload, "little")
    sign = bits >> 127
    combination = bits >> 122 & 0x1F
    if combination == 0x1F:
        return NAN
    if combination == 0x1E:
        return MINUS_INFINITY if sign else INFINITY
    coefficient = bits & (1 << 113) - 1
    if combination >= 0x18 or not 0 < coefficient < 10**_PRECISION:
        return ZERO
    return _number(sign, str(coefficient), (bits >> 113 & 0x3FFF) - 6176)


def _number(sign: int, digits: str, exponent: int) -> str:
    """The number ``digits * 10**exponent``, not zero, `digits` without leading zeros."""
    point = len(digits) + exponent
    digits = digits.rstrip("0")
    if len(digits) > _PRECISION:
        digits = digits[:_PRECISION] + "+"
    if 0 < point <= _ALIGNED_MAX:
        fraction = digits[point:]
        text = _ALIGNED[point] + digits[:point].ljust(point, "0") + ("." + fraction if fraction else "")
    else:
        text = _unaligned(digits, point)
    return text.translate(_MIRROR) + "~" if sign else text


def _unaligned(digits: str, point: int) -> str:
    if point > 0:
        return f"{_HUGE}{point:04d}{digits}"
    return f"{_SMALL}{point - _SMALLEST_POINT:04d}{digits}"
