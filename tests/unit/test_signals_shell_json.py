"""The MongoDB shell's JSON, read into Extended JSON."""

from __future__ import annotations

import pytest

from signals.parsing.shell_json import ShellJsonError, Value, parse_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', 1),
        ("{a: 'it\\'s'}", "it's"),
        ('{a: "\\ud83d\\ude00\\n"}', "😀\n"),
        ("{a: [1, -2, 3.5, 1e3, .5,]}", [1, -2, 3.5, 1000.0, 0.5]),
        ("{a: {$gte: 1, $lt: 2}}", {"$gte": 1, "$lt": 2}),
        ("{a: true}", True),
        ("{a: null}", None),
        ("{a: NaN}", {"$numberDouble": "NaN"}),
        ("{a: -Infinity}", {"$numberDouble": "-Infinity"}),
        ("{a: ObjectId('0123456789ABCDEF01234567')}", {"$oid": "0123456789abcdef01234567"}),
        ("{a: ISODate('2024-01-02')}", {"$date": "2024-01-02T00:00:00Z"}),
        ("{a: new Date('2024-01-02T03:04:05+01:00')}", {"$date": "2024-01-02T03:04:05+01:00"}),
        ("{a: Date(5)}", {"$date": {"$numberLong": "5"}}),
        ("{a: NumberLong('9223372036854775807')}", {"$numberLong": "9223372036854775807"}),
        ("{a: NumberInt(5)}", {"$numberInt": "5"}),
        ("{a: NumberDecimal('1.50')}", {"$numberDecimal": "1.50"}),
        (
            "{a: UUID('01234567-89ab-CDEF-0123-456789abcdef')}",
            {"$uuid": "01234567-89ab-cdef-0123-456789abcdef"},
        ),
        ("{a: BinData(4, 'aGk=')}", {"$binary": {"base64": "aGk=", "subType": "04"}}),
        ("{a: Timestamp(1, 2)}", {"$timestamp": {"t": 1, "i": 2}}),
        ("{a: [MinKey, MaxKey()]}", [{"$minKey": 1}, {"$maxKey": 1}]),
        (r"{a: /^x\/y\d/mi}", {"$regularExpression": {"pattern": r"^x/y\d", "options": "im"}}),
    ],
)
def test_values(text: str, value: Value) -> None:
    """Each form of the language gives the plain value, or the Extended JSON, that it stands for."""
    assert parse_document(text) == {"a": value}


def test_keys() -> None:
    """Keys need no quotes, dotted paths included; either kind of quotes is fine."""
    assert parse_document("""{a.b: 1, $or: [], 'c d': 2, "e": 3, _x1: 4}""") == {
        "a.b": 1,
        "$or": [],
        "c d": 2,
        "e": 3,
        "_x1": 4,
    }


@pytest.mark.parametrize(
    ("text", "expectation"),
    [
        ("", "expected a value at character 1, but the text ends"),
        ("[1]", "expected a document"),
        ("MinKey", "expected a document"),
        ("{", "expected a key"),
        ("{a}", "expected : after the key 'a'"),
        ("{a: 1 b: 2}", "expected , or } at character 7, but found 'b: 2}'"),
        ("{a: 'x}", "expected the closing '"),
        ("{a: x}", "text needs quotes"),
        ("{a: 1, a: 2}", "'a' is given twice"),
        ("{a: sleep(5)}", r"sleep\(…\) is not known"),
        ("{a: ObjectId('xyz')}", "24 hexadecimal digits"),
        ("{a: ISODate('soon')}", "soon"),
        ("{a: NumberInt(4294967296)}", "does not fit 32 bits"),
        ("{a: NumberDecimal('x')}", "no decimal number"),
        ("{a: Timestamp(1)}", "takes 2 plain"),
        ("{a: BinData(256, '')}", "from 0 to 255"),
        ("{a: 9223372036854775808}", "64-bit"),
        (r'{a: "\u12"}', "four hexadecimal digits"),
        ("{a: /x}", "regular expression"),
        ("{a: 1e999}", "too large for a double"),
        ("{a: " + "9" * 5_000 + "}", "64-bit"),
        ("{a: NumberLong('" + "9" * 5_000 + "')}", "digits"),
        (r'{a: "\ud800"}', "half of a surrogate pair"),
        ("{a: " + "new " * 10_000 + "Date(0)}", "not known|needs quotes"),
        ("{a: ISODate(true)}", "True"),
        ("{a: Timestamp(-1, 4294967296)}", "32 bits"),
        ("{a: BinData(true, '')}", "from 0 to 255"),
        ("{a: 1} {", "expected the end"),
        ("{a: " + "[" * 200, "levels"),
    ],
)
def test_refusals(text: str, expectation: str) -> None:
    """What is not the language is refused, with what was expected and where."""
    with pytest.raises(ShellJsonError, match=expectation):
        parse_document(text)
