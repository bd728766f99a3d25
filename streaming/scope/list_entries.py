"""What Python and the server read differently in a regular expression of a list.

The engine reads a list by Python's ``re``, the server by PCRE (which version depends on its own), with all entries of a
list in one expression. A construct that the two are known to take for different things is refused, with the difference:
read one way by the snapshot and the other way by the stream, a collection would be loaded and never followed, or the
reverse. About what this cannot know (a letter's other case in another edition of Unicode), the server itself is asked,
for every name that exists (`snapshotter.reading.name_checks`).

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_JOINED = "the server reads all entries of a list as one expression, in which groups have other numbers"
_ESCAPES = {
    "Z": r"\Z, the end for Python and for the server also the place before a last line break; leave it out: the whole "
    "name is matched anyway",
    "v": r"\v, one character for Python and a class of them for the server; write \s",
    "N": r"\N, a character by its name for Python and any character for the server; write the character itself",
    "u": r"\u, a character for Python and no escape for the server; write the character itself",
    "U": r"\U, a character for Python and no escape for the server; write the character itself",
}
_FOLDED = "İıﬅﬆ"
_REPEAT_MAX = 65_535
_BRACES = re.compile(r"\{(?=[ \t]*[\d,])([ \t]*\d*[ \t]*)(?:,([ \t]*\d*[ \t]*))?\}")
_CLASS_START = re.compile(r"\[\^?\]?")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?[:)]")
_SHARED_FLAGS = frozenset("ims")


def difference(entry: str) -> str | None:
    """The first construct in an entry that is read differently, how, and what to write instead; None where there is
    none. It does not check that Python takes the entry."""
    return next(_differences(entry), None)


def _differences(entry: str) -> Iterator[str]:
    for letter in _FOLDED:
        if letter in entry:
            yield (
                f"{letter}, which Python takes for the other case of other letters than the server does; write a dot "
                f"in its place, or use filters.match.mode=literal"
            )
    at, in_class, repeated = 0, False, False
    while at < len(entry):
        sign, width, repeats = entry[at], 1, False
        if sign == "\\":
            width = 2
            yield from _of_escape(entry[at + 1 : at + 2], in_class)
        elif in_class:
            if sign == "[":
                yield r"[ within [ ], a sign for Python and perhaps a class like [:alpha:] for the server; write \["
            in_class = sign != "]"
        elif sign == "[":
            in_class, width = True, len(_CLASS_START.match(entry, at)[0])  # type: ignore[index]
        elif entry.startswith("(?#", at):
            width = (entry + ")").index(")", at) + 1 - at
        elif sign == "(":
            yield from _of_group(entry[at:])
        elif sign in "*+?":
            if repeated and sign == "+":
                yield "possessive repetition (*+, ++), which versions of Python match differently; one sign is enough"
            repeats = not repeated
        elif (found := _BRACES.match(entry, at)) is not None:
            yield from _of_braces(found)
            width, repeats = len(found[0]), True
        repeated = repeats
        at += width


def _of_escape(letter: str, in_class: bool) -> Iterator[str]:
    if letter in _ESCAPES:
        yield _ESCAPES[letter]
    elif letter.isdigit():
        what = (
            "a character by its octal number"
            if in_class or letter == "0"
            else f"what a group matched: {_JOINED}"
        )
        yield rf"\{letter}, {what}; write the characters themselves"


def _of_group(text: str) -> Iterator[str]:
    if text.startswith(("(?P", "(?(")):
        yield f"{text[:3]}, a group that is referred to: {_JOINED}; write (?:…)"
    elif text.startswith("(?>"):
        yield "(?>, an atomic group, which versions of Python match differently; write (?:…)"
    elif (flags := _FLAGS.match(text)) is not None:
        others = sorted(({*flags[1]} | {*(flags[2] or "")}) - _SHARED_FLAGS)
        if others:
            yield f"the flag {others[0]}, which the server does not have or reads otherwise; flags are i, m and s"


def _of_braces(braces: re.Match[str]) -> Iterator[str]:
    text, least, most = braces[0], braces[1].strip(), (braces[2] or "").strip()
    if not least:
        yield f"{text}, a repetition for Python and plain signs for some servers; write {{0,{most}}}"
    elif re.search(r"\s", text):
        yield f"{text}, plain signs for Python and a repetition for some servers; leave the spaces out"
    elif max(int(least), int(most or 0)) > _REPEAT_MAX:
        yield f"{text}, more than the {_REPEAT_MAX:,} times that the server repeats"
