"""`streaming.delta.table_files`: which of a table's files may hold keys, and how the list follows commits."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from streaming.delta import table_files
from streaming.delta.table_files import DataFile, TableFiles


@dataclass(frozen=True)
class Added:
    """What is asked of Delta's ``AddFile``."""

    name: str
    said: str | None

    def path(self) -> str:
        return self.name

    def stats(self) -> str | None:
        return self.said


def added(name: str, low: str | None, high: str | None, rows: int = 1) -> Added:
    ends = {} if low is None else {"minValues": {"_key": low}, "maxValues": {"_key": high}}
    return Added(name, json.dumps({"numRecords": rows, **ends}))


def listed(*adds: Added) -> TableFiles:
    found = TableFiles("t", 0, {}).after(1, adds)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("low", "high", "meets"),
    [
        ("a", "b", False),  # before all of them
        ("a", "d", True),  # its last key is the first of a range
        ("g", "h", True),  # its first key is the last of a range
        ("h", "i", False),  # in the gap
        ("a", "z", True),
        ("e", "f", True),
        ("r", "z", False),  # behind all of them
        (None, None, True),  # nothing is proven
    ],
)
def test_a_file_is_left_out_only_where_its_statistics_prove_it(
    low: str | None, high: str | None, meets: bool
) -> None:
    """Both ends of a range are in it."""
    ranges = [("d", "g"), ("m", "q")]
    assert DataFile.of(added("f", low, high)).may_meet(ranges) == meets
    assert listed(added("f", low, high)).within(None) == [added("f", low, high)]


def test_the_list_follows_commits() -> None:
    """A file takes the place of one of the same path; others go."""
    before = listed(added("a", "a", "b"), added("b", "c", "d"), added("c", "e", "f"))
    after = before.after(2, [added("b", "c", "d", 9), added("n", "x", "y")], ["c"])
    assert after is not None
    assert (after.table, after.version) == ("t", 2)
    assert {path: file.rows for path, file in after.files.items()} == {"a": 1, "b": 9, "n": 1}
    assert before.version == 1
    assert len(before.files) == 3


def test_a_list_that_can_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many files, one without statistics (a deletion vector must have the number of rows beside it), or with such
    of columns whose values might be rounded."""
    assert listed().after(2, [Added("f", None)]) is None
    more = {
        "numRecords": 1,
        "minValues": {"_key": "a", "price": 1.5},
        "maxValues": {"_key": "a", "price": 1.5},
    }
    assert listed().after(2, [Added("f", json.dumps(more))]) is None
    monkeypatch.setattr(table_files, "FILES_MAX", 2)
    assert listed(added("a", "a", "a")).after(2, [added("b", "b", "b"), added("c", "c", "c")]) is None
