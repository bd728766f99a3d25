"""`streaming.scope.list_entries`: what Python and the server take for different things is refused in any list."""

from __future__ import annotations

import re

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.errors import ConfigurationError
from streaming.scope.list_entries import difference
from streaming.scope.scope import LISTS, CaptureScope, ScopeError

DIFFERENT = {
    r"orders_\d{,2}": "plain signs for some servers; write {0,2}",
    "a{,}": "plain signs for some servers; write {0,}",
    "a{1, 2}": "leave the spaces out",
    "a{70000}": "more than the 65,535 times",
    "a*+": "possessive",
    "a++": "possessive",
    "a?+": "possessive",
    "a{2}+": "possessive",
    "(?>a|b)": "atomic",
    "(?x)a b": "the flag x",
    "(?a:a)": "the flag a",
    "(?P<n>a)": "referred to",
    "(a)?(?(1)b|c)": "referred to",
    r"(a|b)\1": "other numbers",
    r"a\0": "octal",
    r"[\101]": "octal",
    r"a\Z": "last line break",
    r"a\vb": r"write \s",
    r"\N{DIGIT ONE}": "by its name",
    r"\u0061": "write the character itself",
    r"\U00000061": "write the character itself",
    "[[:alpha:]]": r"write \[",
    "[a[b]": r"write \[",
    "İstanbul": "other case of other letters",
    "kapı": "other case",
    "ﬅ": "other case",
}
SAME = [
    *(
        r"shop\.orders",
        "a{2}",
        "a{1,2}",
        "a{1,}",
        "a{2}?",
        "a*?b+?c??",
        "(a+)+",
        "(?:a|b)",
        "(?=a)a",
        "(?<!x)a",
    ),
    *("(?-i:Orders)", "(?i)a", "(?s-i:a.b)", "[]a]", "[^]a]", "[a-z]+", r"[\[{,2}]", r"\{,2}", "a{}", "a{b}"),
    *(r"\Aa$", r"\w+\d\s\S\b", r"\x41", "Öl", "заказы", "(?#a [comment)b", "a|"),
]


@pytest.mark.parametrize("entry", DIFFERENT)
def test_what_is_read_differently_is_refused_in_any_list(entry: str) -> None:
    """With the construct, the difference, and what to write instead; taken literally it is a name like any other."""
    found = difference(entry)
    assert found is not None
    assert DIFFERENT[entry] in found
    for option in (*LISTS, "snapshot.include.collection.list"):
        given = {
            "name": "e",
            "mongodb.connection.string": "mongodb://x",
            "delta.warehouse": "/w",
            option: entry,
        }
        with pytest.raises(ConfigurationError, match=re.escape(option)) as refused:
            Settings.from_options(given, {})
        assert found[:30] in str(refused.value)
        if option in LISTS:
            with pytest.raises(ScopeError, match=re.escape(found[:30])):
                CaptureScope.parse({option: entry})
    CaptureScope.parse({"database.include.list": entry, "filters.match.mode": "literal"})


@pytest.mark.parametrize("entry", SAME)
def test_what_is_read_alike_is_taken(entry: str) -> None:
    """Nothing more is refused than has to be."""
    assert difference(entry) is None
    CaptureScope.parse({"database.include.list": entry})
