"""Patterns of names: RE2's syntax, where it differs from Java's, and its limits."""

from __future__ import annotations

import pytest

from signals.errors import shown
from signals.matching.patterns import BadPattern, compile_pattern
from signals.matching.selection import expand


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        ("a.(?=b)", r"(?=*lookahead"),
        ("a.(?!b)", r"(?!*lookahead"),
        ("(?<=a).b", r"(?<*lookbehind"),
        ("(?<!a).b", r"(?<*lookbehind"),
        ("(?>a).b", r"(?>*atomic"),
        (r"(a)\.\1", r"\1*backreference"),
        (r"(?<n>a)\.\k<n>", r"\k*backreferences"),
        (r"a\.\0101", r"\0*octal"),
        (r"a\.b*+", "*+*possessive"),
        (r"a\.b{2}+", "{2}+*possessive"),
        (r"\p{IsGreek}.b", r"\p{IsGreek}*without Is"),
        (r"\p{Alpha}.b", r"\p{Alpha}*categories"),
        (r"\p{javaLowerCase}.b", r"\p{javaLowerCase}*categories"),
        ("[a-z&&[^b]].c", "&& within [ ]*intersection"),
        ("[a[b]].c", "[ within [ ]*nested"),
        ("[[:alpha:]].c", "[ within [ ]*nested"),
        ("[^]&&a].c", "&& within [ ]*intersection"),
        (r"a\.b\Z", r"\Z*leave \Z out"),
        (r"a\.\h", r"\h*write the character"),
        (r"a\.\R", r"\R*write the character"),
        ("a\\.\\u0041", r"\u*\x{"),
        (r"a\.\v", r"\v*\s"),
        ("(?x)a. b", "(?x*flags"),
        ("(?U)a.b", "the flag U*leave it out"),
        ("(?iU:a).b", "the flag U*leave it out"),
        ("a.(b", "missing )*double quotes"),
        ("a.[b", "missing ]*double quotes"),
        (r"a\.b{1001}", "{1001}*up to 1000"),
        (r"a\.((b{100}){100}){100}", "{100}*together"),
        (r"a\.(.*){1000}", "too large*repeat less"),
        ("x" * 10_001, "too long*10000"),
        ("a.\ud800", "not Unicode*surrogates"),
    ],
)
def test_what_is_not_there_is_named(pattern: str, construct: str) -> None:
    """The message has the pattern, the construct at fault, and what to write instead."""
    with pytest.raises(BadPattern) as refusal:
        compile_pattern(pattern)
    message, (fault, advice) = str(refusal.value), construct.rsplit("*", 1)
    assert message.startswith(f"the pattern {shown(pattern)} ")
    assert fault in message
    assert advice in message


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"\Qa.b[&&\E.*", "a.b[&&c"),
        (r"a\.[]b]+", "a.]b"),
        (r"a\.[\[\]&]+", "a.[&]"),
        ("(?i)A.B", "a.b"),
        ("(?i:A).b", "a.b"),
        (r"\pL+\.\p{Lu}", "ø.Å"),
        (r"\p{Greek}\..", "α.b"),
        (r"a\.\x62\x{63}", "a.bc"),
        (r"^a\.b$", "a.b"),
        (r"\Aa\.b\z", "a.b"),
        (r"a\.b{2,3}?", "a.bb"),
        (r"a\.(?:b|bc)", "a.bc"),
        (r"a\.(?P<n>b)|(?<m>c)", "a.b"),
        ('a."(x"+', "a.(x"),
        ('[a"b]"]\\.c', "b.c"),
        ("a\\.b-c", "a.b-c"),
    ],
)
def test_what_is_as_in_java(pattern: str, name: str) -> None:
    """The syntax that patterns of other connectors have, and the double quotes."""
    assert compile_pattern(pattern).fullmatch(name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [(r"\w+\.a", "ø.a"), (r"\d\.a", "٣.a"), ("a.b", "a.b\n"), ("a.b", "xa.b"), ("a.b|c", "a.bc")],
)
def test_what_does_not_match(pattern: str, name: str) -> None:
    """Classes are ASCII, as in Java, and a match is of the whole name."""
    assert not compile_pattern(pattern).fullmatch(name)


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+$b", "(.*a.{20}){8}b", "(a?){99}a{99}b", "([a-z.]*a){99}b"]
)
def test_no_pattern_blows_up(pattern: str) -> None:
    """What keeps a backtracking engine busy for ever is done at once: a thousand of the longest names."""
    names = [f"a.{'a' * 240}{number}" for number in range(1_000)]
    assert expand([pattern], names) == ()
