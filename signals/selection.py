"""Which collections a signal means: its patterns held against the names that exist.

A pattern is a regular expression that must match a whole name (``database.collection``), with regard to
case. Parts in double quotes are literal, which is how a name with dots or other special characters is
written: ``shop."orders.2024"``. A text that *is* the name of an existing collection means that collection
and no other, so ``shop.orders`` never catches ``shop_orders`` by its dot. A text that matches nothing but
reads as a plain name is kept as that name: the caller finds that the collection does not exist, and says
so. Any other text that matches nothing selects nothing (``unmatched``).

Names are never taken from what a process happens to have seen: the caller lists what the server has.

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_QUOTED = re.compile(r'"([^"]*)"')
_PLAIN = re.compile(r'[^.\s$*+?()\[\]{}|\\^"]+(?:\.[^\s$*+?()\[\]{}|\\^"]+)')


def expand(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """The names that the patterns select, each once: in the order of the patterns, then of ``names``.

    May contain a name that is not among ``names``: a plain one that a pattern spelled out.
    """
    known = tuple(names)
    selected: dict[str, None] = {}
    for pattern in patterns:
        matches = _matches(pattern, known)
        if not matches and is_plain(literal(pattern)):
            matches = (literal(pattern),)
        selected.update(dict.fromkeys(matches))
    return tuple(selected)


def unmatched(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """The patterns that select no existing collection: what an operator is told about."""
    known = tuple(names)
    return tuple(pattern for pattern in patterns if not _matches(pattern, known))


def matches_name(pattern: str, name: str) -> bool:
    """Whether a condition's ``data_collection`` means this collection: a whole match without regard to
    case.
    """
    if literal(pattern).lower() == name.lower():
        return True
    compiled = _compile(pattern, re.IGNORECASE)
    return compiled is not None and compiled.fullmatch(name) is not None


def literal(pattern: str) -> str:
    """The pattern read as a name: without its double quotes."""
    return pattern.replace('"', "")


def is_plain(text: str) -> bool:
    """Whether a text reads as ``database.collection`` with no sign of a regular expression in it."""
    return _PLAIN.fullmatch(text) is not None and not text.endswith(".")


def _matches(pattern: str, names: Sequence[str]) -> tuple[str, ...]:
    exact = literal(pattern)
    if exact in names:
        return (exact,)
    compiled = _compile(pattern, 0)
    return () if compiled is None else tuple(name for name in names if compiled.fullmatch(name))


def _compile(pattern: str, flags: int) -> re.Pattern[str] | None:
    """None where the text is no regular expression: then it can only be a name."""
    pieces = _QUOTED.split(pattern)
    text = "".join(re.escape(piece) if number % 2 else piece for number, piece in enumerate(pieces))
    try:
        return re.compile(text, flags)
    except re.error:
        return None
