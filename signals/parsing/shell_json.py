"""Query documents as people write them: the MongoDB shell's JSON, read into Extended JSON values.

Filters in signals are text. Users of other connectors write what the MongoDB driver's parser takes, which
is more than JSON: keys without quotes, single quotes, ``ObjectId("…")``, ``ISODate("…")``,
``NumberLong(5)``, ``/regex/i``, a comma before a closing bracket. This module reads that language and gives
plain values in which BSON's own types appear as Extended JSON (``{"$oid": "…"}``), so that the result can
be written as JSON text and decoded by any driver.

Nothing is evaluated: a name that is no known constructor is an error, with the place where it stands.
Whatever the text is, the answer is a document or a ShellJsonError; the depth is limited, so that it is never
the stack that gives up.

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import NoReturn

from signals.errors import listed, shortened, shown
from signals.parsing.values import DEPTH_MAX

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$]+)*")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_REGEX = re.compile(r"/((?:[^/\\\n]|\\.)+)/([a-z]*)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_OBJECT_ID = re.compile(r"[0-9a-fA-F]{24}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_INT64 = 1 << 63
_DEPTH_MAX = DEPTH_MAX + 1  # A plain value in the innermost document counts too.
_DIGITS_MAX = 40

_WORDS: dict[str, Value] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": {"$undefined": True},
    "NaN": {"$numberDouble": "NaN"},
    "Infinity": {"$numberDouble": "Infinity"},
    "MinKey": {"$minKey": 1},
    "MaxKey": {"$maxKey": 1},
}


def _object_id(text: Value) -> Value:
    if not isinstance(text, str) or not _OBJECT_ID.fullmatch(text):
        raise ValueError("an ObjectId has 24 hexadecimal digits")
    return {"$oid": text.lower()}


def _uuid(text: Value) -> Value:
    if not isinstance(text, str) or not _UUID.fullmatch(text):
        raise ValueError("a UUID looks like 01234567-89ab-cdef-0123-456789abcdef")
    return {"$uuid": text.lower()}


def _is_whole(value: Value, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << bits


def _date(moment: Value) -> Value:
    if isinstance(moment, int) and not isinstance(moment, bool):
        return {"$date": {"$numberLong": str(moment)}}
    parsed = datetime.fromisoformat(str(moment))
    # Without a time zone it is UTC, as MongoDB reads it.
    return {"$date": parsed.isoformat() + ("" if parsed.tzinfo else "Z")}


def _integer(kind: str, bits: int) -> Callable[[Value], Value]:
    def construct(number: Value) -> Value:
        value = int(str(number))
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError(f"it does not fit {bits} bits")
        return {kind: str(value)}

    return construct


def _decimal(number: Value) -> Value:
    try:
        return {"$numberDecimal": str(Decimal(str(number)))}
    except InvalidOperation as error:
        raise ValueError("it is no decimal number") from error


def _binary(kind: Value, text: Value) -> Value:
    if not isinstance(kind, int) or not _is_whole(kind, 8):
        raise ValueError("the first argument is a subtype from 0 to 255")
    return {"$binary": {"base64": text, "subType": f"{kind:02x}"}}


def _timestamp(seconds: Value, increment: Value) -> Value:
    if not (_is_whole(seconds, 32) and _is_whole(increment, 32)):
        raise TypeError("both arguments are whole numbers of 32 bits")
    return {"$timestamp": {"t": seconds, "i": increment}}


_CONSTRUCTORS: dict[str, tuple[int, Callable[..., Value]]] = {
    "ObjectId": (1, _object_id),
    "ISODate": (1, _date),
    "Date": (1, _date),
    "NumberLong": (1, _integer("$numberLong", 64)),
    "NumberInt": (1, _integer("$numberInt", 32)),
    "NumberDecimal": (1, _decimal),
    "UUID": (1, _uuid),
    "BinData": (2, _binary),
    "Timestamp": (2, _timestamp),
    "MinKey": (0, lambda: {"$minKey": 1}),
    "MaxKey": (0, lambda: {"$maxKey": 1}),
}


class ShellJsonError(ValueError):
    """The text is not a document. The message says what was expected, and where."""


def parse_document(text: str) -> dict[str, Value]:
    """The one document that ``text`` holds, with BSON's own types as Extended JSON. Raises ShellJsonError."""
    reader = _Reader(text)
    value = reader.value()
    if not isinstance(value, dict) or not text.lstrip().startswith("{"):
        raise ShellJsonError("expected a document, which begins with {")
    reader.skip_space()
    if reader.at < len(text):
        reader.fail("expected the end of the text")
    return value


class _Reader:
    """A recursive descent over ``text``; ``at`` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def fail(self, expectation: str) -> NoReturn:
        near = self.text[self.at : self.at + 12]
        found = f"found {near!r}" if near else "the text ends"
        raise ShellJsonError(f"{expectation} at character {self.at + 1}, but {found}")

    def skip_space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def peek(self) -> str:
        self.skip_space()
        return self.text[self.at : self.at + 1]

    def take(self, character: str) -> bool:
        if self.peek() != character:
            return False
        self.at += 1
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.skip_space()
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def value(self) -> Value:
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            self.fail(f"expected at most {_DEPTH_MAX} levels")
        result = self._value()
        self.depth -= 1
        return result

    def _value(self) -> Value:
        start = self.peek()
        if start == "{":
            return self.document()
        if start == "[":
            self.at += 1
            return self.items("]")
        if start in ("'", '"'):
            return self.string()
        if start == "/":
            return self.regex()
        if number := self.match(_NUMBER):
            return self.number(number.group())
        if self.text.startswith("-Infinity", self.at):
            self.at += len("-Infinity")
            return {"$numberDouble": "-Infinity"}
        return self.word()

    def document(self) -> dict[str, Value]:
        self.at += 1
        result: dict[str, Value] = {}
        while not self.take("}"):
            key = self.key()
            if key in result:
                raise ShellJsonError(f"the key {shown(key)} is given twice in one document")
            if not self.take(":"):
                self.fail(f"expected : after the key {shown(key)}")
            result[key] = self.value()
            if not self.take(",") and self.peek() != "}":
                self.fail("expected , or }")
        return result

    def key(self) -> str:
        if self.peek() in ("'", '"'):
            return self.string()
        name = self.match(_NAME)
        if not name:
            self.fail("expected a key")
        return name.group()

    def items(self, closing: str) -> list[Value]:
        result: list[Value] = []
        while not self.take(closing):
            result.append(self.value())
            if not self.take(",") and self.peek() != closing:
                self.fail(f"expected , or {closing}")
        return result

    def number(self, text: str) -> Value:
        if any(c in text for c in ".eE"):
            double = float(text)
            if double - double != 0:
                raise ShellJsonError(f"{shown(text)} is too large for a double")
            return double
        if len(text) > _DIGITS_MAX or not -_INT64 <= int(text) < _INT64:
            raise ShellJsonError(f"{shown(text)} does not fit a 64-bit integer")
        return int(text)

    def string(self) -> str:
        quote, self.at = self.peek(), self.at + 1
        parts: list[str] = []
        while True:
            if self.at >= len(self.text):
                self.fail(f"expected the closing {quote}")
            character = self.text[self.at]
            self.at += 1
            if character == quote:
                return self.joined("".join(parts))
            parts.append(self.escape() if character == "\\" else character)

    def joined(self, text: str) -> str:
        """The text with its escaped surrogate pairs, which come in as two characters, joined."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise ShellJsonError(f"half of a surrogate pair is no text: {shown(text)}") from error

    def escape(self) -> str:
        character = self.text[self.at : self.at + 1]
        self.at += 1
        if character != "u":
            return _ESCAPES.get(character, character)
        digits = _HEX.match(self.text, self.at)
        if not digits:
            self.fail("expected four hexadecimal digits")
        self.at = digits.end()
        return chr(int(digits.group(), 16))

    def regex(self) -> Value:
        found = self.match(_REGEX)
        if not found:
            self.fail("expected a regular expression /…/")
        options = "".join(sorted(found.group(2)))
        return {"$regularExpression": {"pattern": found.group(1).replace("\\/", "/"), "options": options}}

    def word(self) -> Value:
        start = self.at
        name = self.match(_NAME)
        if name and name.group() == "new":  # Once: "new new Date(0)" is a mistake.
            name = self.match(_NAME)
        if not name:
            self.fail("expected a value")
        word = name.group()
        if not self.take("("):
            if word in _WORDS:
                return _WORDS[word]
            self.at = start
            self.fail("expected a value (text needs quotes)")
        if word not in _CONSTRUCTORS:
            raise ShellJsonError(
                f"{word[:40]}(…) is not known here; known are {', '.join(sorted(_CONSTRUCTORS))}"
            )
        arguments = self.items(")")
        count, construct = _CONSTRUCTORS[word]
        if len(arguments) != count or any(isinstance(a, (dict, list)) or a is None for a in arguments):
            raise ShellJsonError(f"{word}(…) takes {count} plain value(s), got {len(arguments)}")
        try:
            return construct(*arguments)
        except (ValueError, TypeError) as error:
            raise ShellJsonError(f"{word}({listed(arguments)}): {shortened(error)}") from error
