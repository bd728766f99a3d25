"""Laws of filters and properties files, on generated texts."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from signals.errors import MalformedSignal
from signals.parsing.shell_json import ShellJsonError, parse_document
from signals.parsing.signal import filter_text
from snapshotter.configuration.config_files import parse_properties
from snapshotter.errors import redact

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
_values = st.recursive(
    _leaves | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=12,
)
_documents = st.dictionaries(_text, _values, max_size=5)


def _is_bson(text: str) -> bool:
    return "\\u0000" not in text and "$" not in text


@given(_documents, st.booleans())
def test_json_is_read_as_json_reads_it(document: dict[str, object], ascii_only: bool) -> None:
    """Whatever is JSON means here what it means everywhere, escapes included."""
    text = json.dumps(document, ensure_ascii=ascii_only)
    assert parse_document(text) == document
    if _is_bson(json.dumps(document)):
        assert json.loads(filter_text(text)) == document
        assert json.loads(filter_text(document)) == document


@given(st.text(st.sampled_from("{}[]:,'\"$ab1.- \\/()n\t"), max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Any text is a document or a ShellJsonError, never another exception."""
    try:
        parsed = parse_document(text)
        kept = filter_text(text)
    except (ShellJsonError, MalformedSignal):
        return
    assert parse_document(kept) == parsed


@given(
    st.dictionaries(st.text("ab.c", min_size=1, max_size=8), st.text("ab =:#!\\é", max_size=10), max_size=5)
)
def test_properties_come_back(options: dict[str, str]) -> None:
    """A properties file written with escapes is read back; only spaces around values are lost."""
    escaped = {n: "".join(f"\\{c}" if c in "\\ " else c for c in v) for n, v in options.items()}
    text = "\n".join(f"{name}={value}" for name, value in escaped.items())
    assert {n: v.strip() for n, v in parse_properties(text).items()} == {
        n: v.strip() for n, v in options.items()
    }


@given(st.text("uvw%40/:@", min_size=1, max_size=12), st.text("xyz%2F@/:", min_size=1, max_size=12))
def test_no_password_survives(user: str, password: str) -> None:
    """Whatever characters user and password have, also unescaped ones, the address shows neither."""
    assert redact(f"mongodb://{user}:{password}@host:1/db") == "mongodb://***:***@host:1/db"
