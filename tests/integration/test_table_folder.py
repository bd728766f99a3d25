"""`streaming.delta.table_folder`: on a disk and in an object store a folder is used in the same way."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from streaming.delta.new_files import (
    TOLD,
    FileWriter,
    NewFile,
    discard_job,
    hide,
    job_name,
    leftovers,
    size_in,
)
from streaming.delta.object_store import ObjectStore
from streaming.delta.table_folder import TableFolder
from tests.support.object_store import KEYS, Refusing, object_store, put

SCHEMA = pa.schema([pa.field("_key", pa.string())])
STORE = ObjectStore(
    secure=False,
    path_style=True,
    attempts=1,
    access_key=KEYS["AWS_ACCESS_KEY_ID"],
    secret_key=KEYS["AWS_SECRET_ACCESS_KEY"],
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Refusing, int]]:
    with object_store(tmp_path_factory.mktemp("store"), "tables") as found:
        yield found


@pytest.fixture(params=["disk", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> TableFolder:
    """One of a table that has a log already, as a task gets it."""
    if request.param == "disk":
        (tmp_path / "_delta_log").mkdir()
        return TableFolder.on_disk(str(tmp_path))
    proxy, port = request.getfixturevalue("store")
    path = f"tables/{tmp_path.name} [x] é/orders"
    put(port, f"/tables/{tmp_path.name}%20[x]%20%C3%A9/orders/_delta_log/0.json", b"{}")
    reached = replace(STORE, endpoint=f"127.0.0.1:{proxy.port}")
    sent = pickle.loads(pickle.dumps(TableFolder(f"s3a://{path}", path, reached)))
    assert isinstance(sent, TableFolder)
    return sent


def written(folder: TableFolder, job: str, keys: list[str]) -> NewFile:
    writer = FileWriter(folder, SCHEMA, job, 7, 5 << 32)
    writer.add(pa.RecordBatch.from_arrays([pa.array(keys)], schema=SCHEMA))
    file = writer.close()
    assert file is not None
    return file


def test_files_are_written_found_and_removed(folder: TableFolder) -> None:
    """Each has the size that was reported, and is gone once it is removed, however often; others stay."""
    one, other = job_name(), job_name()
    first, second = written(folder, one, ["a", "b", "c"]), written(folder, other, ["d", "e"])
    assert folder.each(lambda file: size_in(folder, file), [first, second]) == [
        first.size_bytes,
        second.size_bytes,
    ]
    assert hide(folder, first, pa.array(["b", "z"])).gone == (1,)
    assert leftovers(folder, time.time()) == {first.name, second.name}
    assert leftovers(folder, time.time() + 4 * 86_400) == set()
    discard_job(folder, one)
    folder.remove([first.name, "never-there"])
    assert (size_in(folder, first), size_in(folder, second)) == (None, second.size_bytes)


def test_a_folder_inside_is_one_of_its_own(folder: TableFolder) -> None:
    """It may be there already. What lies in it is found by the path that its partition gives it, and a log names it by
    that, with nothing of keys."""
    folder.inside("n=1")
    job = job_name(TOLD)
    writer = FileWriter(folder.inside("n=1"), pa.schema([pa.field("v", pa.int64())]), job, 7)
    writer.add(pa.RecordBatch.from_pydict({"v": [1, 2]}))
    file = writer.close()
    assert file is not None
    file = replace(file, partition="n=1")
    assert size_in(folder, file) == file.size_bytes
    assert NewFile.from_json(json.loads(json.dumps(file.to_json()))) == file
    add = json.loads(file.to_action(3))["add"]
    assert (add["path"], add["partitionValues"]) == (f"n=1/{file.name}", {"n": "1"})
    assert json.loads(add["stats"]) == {"numRecords": 2}
    discard_job(folder.inside("n=1"), job)
    assert size_in(folder, file) is None


def test_a_file_that_is_given_up_leaves_nothing(folder: TableFolder) -> None:
    """Although some of it may have been written."""
    writer = FileWriter(folder, SCHEMA, job_name(), 7, 5 << 32)
    writer.add(pa.RecordBatch.from_arrays([pa.array(["a"])], schema=SCHEMA))
    writer._write()
    writer.discard()
    assert leftovers(folder, time.time()) == set()


def test_a_store_that_refuses_is_said_so(store: tuple[Refusing, int]) -> None:
    """By the error that tells operators to leave it time; nothing is reported as written."""
    proxy, port = store
    put(port, "/tables/busy/_delta_log/0.json", b"{}")
    folder = TableFolder("", "tables/busy", replace(STORE, endpoint=f"127.0.0.1:{proxy.port}"))
    proxy.refuse(float("inf"))
    try:
        with pytest.raises(OSError, match=r"SLOW_DOWN"):
            written(folder, job_name(), ["a"])
        discard_job(folder, job_name())
    finally:
        proxy.refuse(0)
