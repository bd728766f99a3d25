"""JSON on disk and between processes: written for any reader, and read whoever wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.json_text import from_text, to_text

_texts = st.text(st.characters(), max_size=20)  # halves of surrogate pairs among them
_scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | _texts
_values = st.recursive(
    _scalars.filter(lambda v: v not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)


@given(_values)
@example("\ud800")
@example({"id": "\udfff", "error": "ı İ ﬅ \0"})
def test_every_value_comes_back_whoever_reads_it(value: Any) -> None:
    """What we write the standard library reads, and the other way round: earlier versions wrote by it."""
    assert json.loads(to_text(value)) == value
    assert from_text(json.dumps(value)) == value
    assert from_text(json.dumps(value, ensure_ascii=False, indent=2)) == value
    to_text(value).encode("utf-8")  # as a file has it


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", '{"a": 1', "nothing"])
def test_what_is_no_json_is_refused(text: str) -> None:
    """By a ValueError, as before: whoever reads a file says which one it is."""
    with pytest.raises(ValueError):
        from_text(text)


def test_what_is_no_value_is_refused() -> None:
    """Nothing is written for it, and nothing is put in its place."""
    with pytest.raises(TypeError):
        to_text({"a": object()})
