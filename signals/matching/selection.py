"""Which collections a signal means: its patterns held against the names that exist.

A pattern is a regular expression that must match a whole name (``database.collection``), with regard to
case. Parts in double quotes are literal, which is how a name with dots or other special characters is
written: ``shop."orders.2024"``. A text that *is* the name of an existing collection means that collection
and no other, so ``shop.orders`` never catches ``shop_orders`` by its dot. A text that matches nothing but
reads as a plain name is kept as that name: the caller finds that the collection does not exist, and says
so. Any other text that matches nothing selects nothing (``unmatched``), and a text that is neither a name
that exists nor a regular expression is refused (``BadPattern``).

Names are never taken from what a process happens to have seen: the caller lists what the server has.

No clock, no server; the expressions are ``signals.matching.patterns``, by RE2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from signals.matching.patterns import BadPattern, compile_pattern, literal, unquoted

_SPECIAL = re.compile(r"[\s$*+?()\[\]{}|\\^]")


class _Names:
    """The names that exist, in their order, to be asked many times."""

    def __init__(self, names: Iterable[str]) -> None:
        # A name that is no Unicode text is none that a server has, and an expression cannot be asked about it.
        self.all = tuple(name for name in names if _encodes(name))
        self.known = frozenset(self.all)

    def matching(self, pattern: str) -> tuple[str, ...]:
        """The names that a pattern means. Raises BadPattern."""
        exact = literal(pattern)
        if exact in self.known:
            return (exact,)
        compiled = compile_pattern(pattern)
        return tuple(name for name in self.all if compiled.fullmatch(name))


def expand(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """The names that the patterns select, each once: in the order of the patterns, then of ``names``.

    May contain a name that is not among ``names``: a plain one that a pattern spelled out. Raises BadPattern.
    """
    existing = _Names(names)
    selected: dict[str, None] = {}
    for pattern in patterns:
        matches = existing.matching(pattern)
        if not matches and (name := named_collection(pattern)):
            matches = (name,)
        selected.update(dict.fromkeys(matches))
    return tuple(selected)


def unmatched(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """The patterns that select no existing collection: what an operator is warned of. Raises BadPattern."""
    existing = _Names(names)
    return tuple(pattern for pattern in patterns if not existing.matching(pattern))


def matches_name(pattern: str, name: str) -> bool:
    """Whether a condition's ``data_collection`` means this collection: a whole match without regard to
    case.

    A text that is no regular expression can only be a name. (``signals.parsing.signal`` lets one through only
    where ``data-collections`` has it too, and there it must exist.)
    """
    if literal(pattern).lower() == name.lower():
        return True
    try:
        compiled = compile_pattern(pattern, ignore_case=True)
    except BadPattern:
        return False
    return _encodes(name) and compiled.fullmatch(name) is not None


def named_collection(pattern: str) -> str | None:
    """The one collection that a pattern names, without its quotes; None where it may mean any number.

    A name has ``database.collection``; outside of double quotes no sign of a regular expression but dots.
    """
    name = literal(pattern)
    database, _, collection = name.partition(".")
    if not database or not collection or name.endswith(".") or _SPECIAL.search(unquoted(pattern)):
        return None
    return name


def spelled(name: str) -> str:
    """A collection's name as a pattern that means it alone, whether it exists or not."""
    return f'"{name}"' if _SPECIAL.search(name) else name


def is_expression(pattern: str) -> bool:
    """Whether a pattern has a sign of a regular expression in it, other than a dot, outside of quotes."""
    return _SPECIAL.search(unquoted(pattern)) is not None


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
