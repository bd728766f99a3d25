"""Files in which other products keep their positions: which position is taken, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snapshotter.position.java_maps import parse_map
from snapshotter.position.offset_files import entries, read_stored
from snapshotter.position.own_file import export
from snapshotter.position.starts import Start
from snapshotter.position.stored import parse_stored
from streaming.positions import ClusterTime
from tests.support.java_streams import java_map

TIME = ClusterTime(1_764_000_000, 7)
VALUE = json.dumps({"sec": TIME.t, "ord": TIME.i, "resume_token": "eyJ9"})
OFFSET_DAT = (  # written by java.io.ObjectOutputStream: {"k": "v"}
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72490009746872"
    "6573686f6c6478703f4000000000000c770800000010000000017572000"
    "25b42acf317f8060854e002000078700000000"
    "16b7571007e0002000000017678"
)


SHARED = (  # by the same: null for a value, and one array as the value of two keys
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72490009746872"
    "6573686f6c6478703f4000000000000c77080000001000000004757200025b42acf317f8060854e00200007870000000026b347571007e"
    "00020000000473616d657571007e0002000000026b3371007e00047571007e0002000000026b32707571007e0002000000016b7571007e"
    "0002000000017678"
)


def key(name: str) -> str:
    """As the embedded engine writes it, with the envelope of a schema."""
    return json.dumps({"schema": None, "payload": [name, {"server_id": name}]})


def test_the_file_store_as_java_writes_it() -> None:
    """Byte for byte; and with what it refers back to."""
    assert java_map({b"k": b"v"}).hex() == OFFSET_DAT
    shared = {b"k4": b"same", b"k3": b"same", b"k2": None, b"k": b"v"}
    assert parse_map(bytes.fromhex(SHARED)) == shared


def test_the_connector_of_this_name_is_chosen(tmp_path: Path) -> None:
    """Of several in a file, or the one that is asked for; a file of one needs no name."""
    file = tmp_path / "offset.dat"
    file.write_bytes(java_map({key(n).encode(): VALUE.encode() for n in ("shop", "other")}))
    assert read_stored(file, ("shop",)).start == Start(time=TIME)
    assert read_stored(file, (), "oth").start == Start(time=TIME)
    with pytest.raises(ValueError, match=r"2 positions, 0 fit: choose by --entry TEXT one of .*shop.*other"):
        read_stored(file, ("elsewhere",))
    file.write_bytes(java_map({key("shop").encode(): VALUE.encode()}))
    assert read_stored(file, ("elsewhere",)).start == Start(time=TIME)


def test_the_newest_value_of_a_key_counts() -> None:
    """A topic holds all of them; one that was taken back is no position."""
    later = json.dumps({"sec": TIME.t + 1, "ord": 1})
    lines = [f'["shop",{{"server_id":"shop"}}]\t{value}' for value in (VALUE, later)]
    (found,) = entries("\n".join(lines).encode())
    assert parse_stored(found.value).start == Start(time=ClusterTime(TIME.t + 1, 1))
    assert entries("\n".join([*lines, '["shop",{"server_id":"shop"}]\tnull']).encode()) == []


@pytest.mark.parametrize(
    "text",
    [
        VALUE,
        json.dumps({"key": ["shop", {"server_id": "shop"}], "value": json.loads(VALUE)}),
        json.dumps({"offsets": [{"partition": {"server_id": "shop"}, "offset": json.loads(VALUE)}]}),
        json.dumps({"schema": None, "payload": json.loads(VALUE)}),
    ],
    ids=["the value alone", "with its key", "Connect's REST interface", "in the envelope of a schema"],
)
def test_connects_offset_as_json(tmp_path: Path, text: str) -> None:
    """However one got it out."""
    file = tmp_path / "offset.json"
    file.write_text(text)
    stored = read_stored(file)
    assert (stored.product, stored.start) == ("Debezium", Start(time=TIME))


def test_our_own_file_is_read_too(tmp_path: Path) -> None:
    """Behind its position."""
    file = tmp_path / "position.json"
    file.write_text(export("shop", TIME))
    assert read_stored(file).start == Start(time=TIME, inclusive=False)


def checkpoint(path: Path, offsets: dict[int, str], commits: tuple[int, ...]) -> Path:
    """As Structured Streaming lays it out."""
    for folder in ("offsets", "commits", "sources"):
        (path / folder).mkdir()
    for batch, offset in offsets.items():
        (path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offset}')
    for batch in commits:
        (path / "commits" / str(batch)).write_text("v1\n{}")
    return path


def test_a_checkpoint_counts_what_was_committed(tmp_path: Path) -> None:
    """The newest batch was planned, and its sink may have nothing of it."""
    stamps = {
        n: f'{{"version": 1, "offset": {{"$timestamp": {{"t": {TIME.t + n}, "i": 0}}}}}}' for n in range(11)
    }
    stored = read_stored(checkpoint(tmp_path, stamps, tuple(range(10))))
    assert (stored.product, stored.start) == ("mongo-spark", Start(time=ClusterTime(TIME.t + 9, 0)))


def test_a_checkpoint_of_no_committed_batch_is_none(tmp_path: Path) -> None:
    """Nor is any other folder, nor one of another format."""
    with pytest.raises(ValueError, match="no checkpoint of a streaming query"):
        read_stored(checkpoint(tmp_path, {0: "{}"}, ()))
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    (tmp_path / "offsets" / "0").write_text("v9\n{}\n{}")
    with pytest.raises(ValueError, match="'v9'"):
        read_stored(tmp_path)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"initsync": True, "sec": 0}, "neither a time nor a resume token"),
        ({"sec": -1, "resume_token": "§"}, "neither base64 of BSON nor hex"),
        ({"_id": '{"_id": 5, "copyingData": true}', "copy": "true"}, "snapshot.mode=initial"),
        ({"_id": 5}, "holds no resume token"),
        ({"version": 2, "offset": {}}, "not known"),
        ({"version": 1, "offset": {"$timestamp": {"t": 4294967295, "i": 4294967295}}}, "had not begun"),
        ({"t": 1, "i": True}, "no time of an event"),
    ],
)
def test_what_holds_no_position_says_why(value: object, said: str) -> None:
    """With what to do where there is a way."""
    with pytest.raises(ValueError, match=said):
        parse_stored(value)


def test_what_was_under_way_is_said() -> None:
    """For it is not carried on here."""
    offset = {"sec": TIME.t, "ord": 1, "initsync": True, "incremental_snapshot_collections": "[...]"}
    first, second = parse_stored(offset).notes
    assert "initial snapshot had not finished" in first
    assert "execute-snapshot" in second
    (copy,) = parse_stored({"_id": '{"_data": "8265"}', "copy": "true"}).notes
    assert "copy of existing data had not finished" in copy


@pytest.mark.parametrize("data", [b"", b"hello", b"\xac\xed\x00\x05t\x00\x01k", b"[1]\tx", b"5"])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    """With a sentence that names what was expected."""
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"position|JSON|HashMap"):
        read_stored(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_stored(tmp_path / "gone")
