"""One suite for every adapter of `snapshotter.state.storage.Storage`: the fake behaves as the real ones do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from snapshotter.state.storage import LocalStorage, MemoryStorage, Storage, StorageError
from snapshotter.state.storages import storage_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = 'line one\nlïne two \U0001f600\r\n\n{"a": 1}'


@pytest.fixture(params=["memory", "local", "hadoop"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Each adapter in turn, over an empty location that does not exist yet."""
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "local":
        return LocalStorage(tmp_path / "engine")
    from snapshotter.state.storage_hadoop import HadoopStorage

    return HadoopStorage(request.getfixturevalue("spark"), (tmp_path / "engine").as_uri())


def test_a_text_comes_back_as_it_was_written(storage: Storage) -> None:
    """Line ends, a missing last line end, and characters beyond ASCII are kept."""
    storage.write_text("progress/7.json", TEXT)
    assert storage.read_text("progress/7.json") == TEXT
    storage.write_text("empty", "")
    assert storage.read_text("empty") == ""


def test_what_is_not_there(storage: Storage) -> None:
    """A missing file reads as None, a missing folder lists nothing, and deleting nothing is no error."""
    assert storage.read_text("progress/7.json") is None
    assert not storage.exists("progress/7.json")
    assert storage.list_names("progress") == []
    storage.delete("progress/7.json")


def test_a_write_replaces_the_whole_text(storage: Storage) -> None:
    """A shorter text leaves nothing of the longer one behind."""
    storage.write_text("journal", "long " * 1000)
    storage.write_text("journal", "short")
    assert storage.read_text("journal") == "short"
    assert storage.list_names("") == ["journal"]


def test_create_makes_a_file_only_once(storage: Storage) -> None:
    """The second caller is told False and the first one's text stays; deleted, the name is free again."""
    assert storage.create_text("lock/1", "first")
    assert not storage.create_text("lock/1", "second")
    assert storage.read_text("lock/1") == "first"
    assert storage.list_names("lock") == ["1"]
    storage.delete("lock/1")
    assert storage.create_text("lock/1", "third")


def test_names_are_listed_sorted_and_without_folders(storage: Storage) -> None:
    """Only the files right in the folder are listed."""
    for name in ("progress/2", "progress/10", "progress/deep/3", "other"):
        storage.write_text(name, name)
    assert storage.list_names("progress") == ["10", "2"]
    assert storage.list_names("") == ["other"]
    assert storage.exists("progress/deep/3")
    assert not storage.exists("progress/deep")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../up", "a//b", "a/.hidden", "a/"])
def test_a_name_that_leaves_the_location_is_refused(storage: Storage, name: str) -> None:
    """Names stay under the location; the message shows the name."""
    with pytest.raises(ValueError, match="not the name of a file"):
        storage.write_text(name, "x")


def test_of_many_creators_in_threads_one_wins(tmp_path: Path) -> None:
    """`create_text` is exclusive: one True, and the text is the winner's."""
    for make in _exclusive(tmp_path):
        storage = make()
        barrier = threading.Barrier(8)
        won: list[str] = []

        threads = [
            threading.Thread(target=_create, args=(storage, str(number), barrier, won)) for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert storage.read_text("token") == won[0]


def _create(storage: Storage, text: str, barrier: threading.Barrier, won: list[str]) -> None:
    barrier.wait()
    if storage.create_text("token", text):
        won.append(text)


def _exclusive(tmp_path: Path) -> list[Callable[[], Storage]]:
    return [MemoryStorage, lambda: LocalStorage(tmp_path)]


def test_a_draft_left_by_a_crash_is_not_listed(tmp_path: Path) -> None:
    """A process killed between writing and renaming leaves a dotted file that nobody sees."""
    storage = LocalStorage(tmp_path)
    storage.write_text("progress/1", "one")
    (tmp_path / "progress" / ".2.99.tmp").write_text("half")
    assert storage.list_names("progress") == ["1"]


def test_a_place_that_refuses_is_named(tmp_path: Path) -> None:
    """The error shows the file, the location and the reason."""
    (tmp_path / "engine").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match=r"cannot write 'progress/1' in .*engine: "):
        LocalStorage(tmp_path / "engine").write_text("progress/1", "x")


def test_the_location_picks_the_adapter(tmp_path: Path) -> None:
    """Paths and file: URIs are local, and any other scheme needs a Spark session."""
    assert storage_for(str(tmp_path)).location == str(tmp_path)
    assert storage_for((tmp_path / "a b").as_uri()).location == str(tmp_path / "a b")
    with pytest.raises(StorageError, match="s3a"):
        storage_for("s3a://bucket/checkpoint")


def test_a_hadoop_location_that_refuses_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Through py4j too, the error shows the file, the location and the Java reason."""
    from snapshotter.state.storage_hadoop import HadoopStorage

    (tmp_path / "engine").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="cannot write 'progress/1' in file:"):
        HadoopStorage(spark, (tmp_path / "engine").as_uri()).write_text("progress/1", "x")
    with pytest.raises(StorageError, match="nosuchscheme"):
        storage_for("nosuchscheme://x/y", spark)
