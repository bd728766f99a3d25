"""`streaming.delta.table_files`: how the list of a table's files follows commits, and which of them may hold keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from streaming.delta import table_files
from streaming.delta.file_index import DataFile, FileIndex, Run
from streaming.delta.table_files import TableFiles


@dataclass(frozen=True)
class Added:
    """What is asked of Delta's ``AddFile``."""

    name: str
    said: str | None
    marked: int = 0

    def json(self) -> str:
        return json.dumps({"add": self.action()})

    def action(self) -> dict[str, object]:
        vector = {"deletionVector": {"cardinality": self.marked}} if self.marked else {}
        return {"path": self.name, "size": 10, "modificationTime": 5, "stats": self.said, **vector}


class InPython(list[Added]):
    """What else is kept of each file, as the JVM keeps it."""

    def texts(self) -> str:
        return json.dumps([add.action() for add in self])

    def replace(self, place: int, add: Added) -> None:
        self[place] = add

    def remove(self, place: int) -> None:
        del self[place]

    def get(self, place: int) -> Added:
        return self[place]

    def take(self, runs: Sequence[Run]) -> list[Added]:
        return [add for begin, end in runs for add in self[begin:end]]


def added(name: str, low: str | None, high: str | None, rows: int = 1, marked: int = 0) -> Added:
    ends = {} if low is None else {"minValues": {"_key": low}, "maxValues": {"_key": high}}
    return Added(name, json.dumps({"numRecords": rows, **ends}), marked)


def listed(*adds: Added) -> TableFiles:
    """Of files that are given in their order."""
    found = TableFiles.made("t", 1, InPython(adds))
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
    file = added("f", low, high)
    assert listed(file).within(ranges) == ([file] if meets else [])
    assert listed(file).within(None) == [file]


def test_the_list_follows_commits() -> None:
    """A file takes the place of one of the same path, also where its keys are others; others go. What is kept beside
    each file stays its own."""
    files = listed(added("a", "a", "b"), added("b", "c", "d"), added("c", "e", "f"))
    assert files.follow(
        2, [added("b", "c", "d", 9, marked=4), added("n", "x", "y"), added("m", "bb", "z")], ["c"]
    )
    assert (files.table, files.version, len(files)) == ("t", 2, 4)
    assert [file.facts.path for file in files] == ["a", "m", "b", "n"]
    assert files.within(None) == [files.add_of(file.facts.path) for file in files]
    assert files.add_of("b") == added("b", "c", "d", 9, marked=4)
    facts = next(file.facts for file in files if file.facts.path == "b")
    assert (facts.rows, facts.marked, facts.size_bytes, facts.written) == (9, 4, 10, 5)
    assert files.follow(3, [added("b", "y", "z", 9)])
    assert files.within([("yy", "zz")]) == [added("m", "bb", "z"), added("b", "y", "z", 9)]


def test_a_file_whose_rows_were_marked_stays_where_it_is() -> None:
    """Nothing is asked of Delta's object of it then. One that is not there, or has other bounds, ends the list."""
    files = listed(added("a", "a", "b"), added("b", "c", "d", 9), added("c", "e", "f"))
    now = added("b", "c", "d", 9, marked=4)
    assert files.follow(2, [added("bb", "cc", "d")], marked=[(now, DataFile.of(now.action()))])
    assert (files.version, [file.facts.path for file in files]) == (2, ["a", "b", "bb", "c"])
    assert files.within(None) == [files.add_of(file.facts.path) for file in files]
    assert files.add_of("b") is now
    assert next(file.facts.marked for file in files if file.facts.path == "b") == 4
    assert DataFile.of(added("b", "c", "d", 9).action()).marking(4) == DataFile.of(now.action())
    for other in (added("none", "c", "d", 9), added("b", "c", "e", 9)):
        assert not files.follow(3, (), marked=[(other, DataFile.of(other.action()))])
        assert files.version == -1


def test_a_list_that_can_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many files, one without statistics (a deletion vector must have the number of rows beside it), or with such
    of columns whose values might be rounded. From then on it is that of no version."""
    without, files = Added("f", None), listed()
    assert not files.follow(2, [without])
    assert files.version == -1
    assert TableFiles.made("t", 1, InPython([without])) is None
    more = {
        "numRecords": 1,
        "minValues": {"_key": "a", "price": 1.5},
        "maxValues": {"_key": "a", "price": 1.5},
    }
    assert not listed().follow(2, [Added("f", json.dumps(more))])
    monkeypatch.setattr(table_files, "FILES_MAX", 2)
    assert not listed(added("a", "a", "a")).follow(2, [added("b", "b", "b"), added("c", "c", "c")])


def test_files_in_another_order_are_no_list() -> None:
    """Their places would be those of others."""
    adds = [added("a", "b", "b"), added("b", "a", "a")]
    assert TableFiles.made("t", 1, InPython(adds)) is None
    with pytest.raises(ValueError, match="ascending"):
        FileIndex([DataFile.of(add.action()) for add in adds])
