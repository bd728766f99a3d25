"""What a commit says of a file that it has never looked into: bounds that hold for every key."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from streaming.delta.new_files import NewFile

KEYS = st.text(st.characters(codec="utf-8"), max_size=80)


@given(st.lists(KEYS, min_size=1, max_size=5), st.integers(0, 2**63 - 1))
@example(["\U0010ffff" * 40], 1)
@example(["a" * 32, "a" * 33], 1)
@example(["a" * 31 + "\U0010ffff" * 2], 1)
def test_statistics_bound_every_key(keys: list[str], time: int) -> None:
    """Readers leave a file out by its bounds, which are compared by their bytes. They are short, however long keys
    are, but where a key goes on with the last character there is."""
    low, high = min(keys), max(keys)
    file = NewFile("reads-1-x.parquet", 10, len(keys), low, high, time)
    said = json.loads(file.statistics())
    least, most = said["minValues"]["_key"], said["maxValues"]["_key"]
    for key in keys:
        assert least.encode() <= key.encode() <= most.encode()
    assert len(least) <= 32
    assert len(most.rstrip("\U0010ffff")) <= 33
    assert (said["numRecords"], said["minValues"]["_cluster_time"]) == (len(keys), time)
    assert said["maxValues"]["_cluster_time"] == time


@given(st.integers(1, 2**40), KEYS, KEYS, st.lists(st.integers(0, 10**6), unique=True))
def test_a_file_survives_its_text(rows: int, low: str, high: str, gone: list[int]) -> None:
    """The worker that wrote it tells the driver by JSON."""
    file = NewFile("reads-1-x.parquet", 7, rows, low, high, 3).without(sorted(gone))
    assert NewFile.from_json(json.loads(json.dumps(file.to_json()))) == file
