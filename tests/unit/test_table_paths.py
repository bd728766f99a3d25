"""`streaming.delta.table_paths`: folders of tables, and names read back from them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from streaming.delta.table_paths import (
    decode_name,
    encode_name,
    engine_path,
    parse_state_path,
    state_path,
    under,
)
from streaming.namespaces import Namespace

_NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)


def test_an_ordinary_name_is_its_own_folder() -> None:
    """Nothing is encoded where nothing needs it, so that people find their tables."""
    assert state_path(Namespace("shop", "orders.2024-archive_1")) == "state/shop/orders.2024-archive_1"


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("a/b", "a~2Fb"),
        ("..", "~2E."),
        ("_hidden", "~5Fhidden"),
        (".hidden", "~2Ehidden"),
        ("50%", "50~25"),
        ("a=b c", "a~3Db~20c"),
        ("~home", "~7Ehome"),
        ("naïve", "na~C3~AFve"),
    ],
)
def test_a_name_that_needs_it_is_encoded(name: str, folder: str) -> None:
    """A character that a file system, a URI or Hadoop would read as its own is encoded, and decoded again."""
    assert encode_name(name) == folder
    assert decode_name(folder) == name


@given(_NAMES, _NAMES)
def test_every_name_comes_back(database: str, collection: str) -> None:
    """The path of a state table tells whose it is, whatever the collection is called."""
    try:
        namespace = Namespace(database, collection)
    except ValueError:
        return
    path = state_path(namespace)
    assert parse_state_path(path) == namespace
    assert path.count("/") == 2
    assert path.isascii()


@given(_NAMES, _NAMES)
def test_two_names_never_share_a_folder(left: str, right: str) -> None:
    """The encoding is injective."""
    assert (encode_name(left) == encode_name(right)) == (left == right)


@pytest.mark.parametrize(
    "path",
    [
        "state/shop",
        "changelog/shop/orders",
        "state/shop/orders/x",
        "state/shop/a~2fb",
        "state/shop/a%2Fb",
        "state/shop/_x",
    ],
)
def test_a_path_of_something_else_is_refused(path: str) -> None:
    """Only what `state_path` wrote is read back, so a stray folder is never taken for a table."""
    with pytest.raises(ValueError, match="not the"):
        parse_state_path(path)


def test_a_name_too_long_for_a_folder_is_refused() -> None:
    """A file system takes 255 bytes: the message shows the name and the length."""
    assert encode_name("x" * 255) == "x" * 255
    with pytest.raises(ValueError, match="768 bytes"):
        encode_name("\u00e9" * 128)
    with pytest.raises(ValueError, match="empty"):
        encode_name("")


@pytest.mark.parametrize("name", ["order items", "Ünïcode.näme", "100%", "_hidden", "~home", "a~20b"])
def test_other_readers_find_the_table(name: str, tmp_path: Path) -> None:
    """delta-rs (and what is built on it) opens the folder of any collection by its plain path."""
    path = under(str(tmp_path), state_path(Namespace("shop", name)))
    Path(path).mkdir(parents=True)
    write_deltalake(path, pa.table({"n": [1]}))
    assert DeltaTable(path).to_pyarrow_table().to_pydict() == {"n": [1]}
    assert [p.name for p in Path(path).parent.iterdir()] == [encode_name(name)]


def test_paths_under_a_warehouse() -> None:
    """A warehouse is a local path or a URI, with or without the last slash."""
    assert under("s3a://bucket/lake/", engine_path("orders")) == "s3a://bucket/lake/_snapshotter/orders"
    assert under("/lake", "state/a/b") == "/lake/state/a/b"
