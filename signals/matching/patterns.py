"""One pattern of collection names as a compiled regular expression, by RE2.

Patterns come from outside, and a backtracking engine can be kept busy for ever by a pattern of twenty
characters. RE2 has none: a match takes a time that is linear in the name, and the size of its program is
bounded here. What RE2 leaves out for that (lookaround, backreferences, possessive repetition) is refused by
name.

Debezium's patterns are Java's. Where RE2 reads a text as something *else* than Java does, the text is
refused too: a pattern must never quietly mean other collections than it did (``docs/signals.md`` has the
list).

Parts in double quotes are literal.
"""

from __future__ import annotations

import re
from functools import lru_cache

import re2

from signals.errors import MalformedSignal, shortened, shown

PATTERN_MAX = 10_000
"""Characters of one pattern. MongoDB's names have at most 255 bytes."""

_MEMORY_MAX = 128 * 1024
_QUOTED = re.compile(r'"([^"]*)"')
_UNGREEDY = re.compile(r"\(\?[a-zA-Z]*U[a-zA-Z]*[-:)]")

# By what RE2 says: what it means, and what to write instead.
_ADVICE = (
    ("too large", "the expression is too large once its repetitions are written out; repeat less"),
    ("repetition operator: ", "possessive repetition (*+, ++) does not exist; a single sign is enough here"),
    ("repetition size", "a repetition goes up to 1000, nested ones together too"),
    ("(?=", "lookahead does not exist; name the collections instead"),
    ("(?!", "lookahead does not exist; name the collections instead"),
    ("(?<", "lookbehind does not exist; name the collections instead"),
    ("(?>", "atomic groups do not exist; write (?:…)"),
    ("(?", "of the flags, i, m and s exist"),
    (r"\p{Is", r"write the property without Is: \p{Greek}"),
    (r"\p{", r"properties are general categories and scripts: \p{L}, \p{Lu}, \p{Greek}"),
    (r"\k", "backreferences do not exist"),
    (r"\Z", r"a match is always of the whole name: leave \Z out"),
    ("escape sequence", r"write the character itself, or \x{…}"),
    ("missing", "it is not closed; if the text is a name, put it in double quotes"),
)


class BadPattern(MalformedSignal):
    """The text is no regular expression here; the message names the pattern, the construct, and a way out."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, ignore_case: bool = False) -> re2._Regexp[str]:
    """The pattern, to be matched whole by ``.fullmatch``. Raises BadPattern."""
    if len(pattern) > PATTERN_MAX:
        raise BadPattern(f"the pattern {shown(pattern)} is too long: at most {PATTERN_MAX} characters")
    pieces = _QUOTED.split(pattern)
    text = "".join(_literally(piece) if number % 2 else piece for number, piece in enumerate(pieces))
    if other := _reads_otherwise(text):
        raise BadPattern(f"the pattern {shown(pattern)} has {other}")
    try:
        return re2.compile(text, _options(ignore_case))
    except re2.error as error:
        said = error.args[0].decode(errors="replace")
        advice = next(
            (text for sign, text in _ADVICE if sign in said), "if it is a name, put it in double quotes"
        )
        raise BadPattern(
            f"the pattern {shown(pattern)} is not a regular expression of RE2's syntax: {shortened(said)} ({advice})"
        ) from error
    except UnicodeEncodeError as error:
        raise BadPattern(f"the pattern {shown(pattern)} is not Unicode: {error.reason}") from error


def literal(pattern: str) -> str:
    """The pattern read as a name: without its double quotes."""
    return pattern.replace('"', "")


def unquoted(pattern: str) -> str:
    """The pattern without its parts in double quotes."""
    return _QUOTED.sub("", pattern)


def _literally(piece: str) -> str:
    return re2.escape(piece) if piece else ""


def _options(ignore_case: bool) -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX
    options.never_capture = True  # Half the work: only whether it matches is asked.
    options.case_sensitive = not ignore_case
    return options


def _reads_otherwise(text: str) -> str | None:
    """What RE2 would accept in an expression but read otherwise than Java does, and what to write instead."""
    at, in_class = 0, False
    while at < len(text):
        two = text[at : at + 2]
        if two == r"\Q" and not in_class:
            end = text.find(r"\E", at)
            at = len(text) if end < 0 else end
        elif two[0] == "\\":
            if two[1:].isdigit():
                return rf"{two}, a backreference or an octal number; write a character by its code as \x{{…}}"
            if two in (r"\v", r"\C"):
                return rf"{two}, which other engines read otherwise; write \s, or the character as \x{{…}}"
        elif in_class:
            if two[0] == "[":
                return r"[ within [ ]; a nested class does not exist, and the sign itself is written \["
            if two == "&&":
                return r"&& within [ ]; an intersection does not exist, and the signs themselves are written \&\&"
            in_class = two[0] != "]"
        elif two[0] == "[":
            in_class = True
            at = _class_start(text, at)
            continue
        elif two == "(?" and _UNGREEDY.match(text, at):
            return "the flag U, which other engines read otherwise; leave it out"
        at += 2 if two[0] == "\\" else 1
    return None


def _class_start(text: str, at: int) -> int:
    """The place behind ``[``, ``[^``, ``[]`` or ``[^]``: a bracket that comes first is not the closing one."""
    at += 1
    at += text[at : at + 1] == "^"
    return at + (text[at : at + 1] == "]")
