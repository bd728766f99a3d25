"""A table's folder as those reach it who are not in the JVM: workers that write files into it, and the driver, which
looks whether they are still there and removes those that nobody will add.

It lies on this machine's disks or in an object store (`streaming.delta.object_store`); any other is left to the JVM. A
file is written once, under a name of its own, and is whole once it is closed: in an object store nobody sees it before,
on a disk it is synced then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import fs

from streaming.delta.object_store import OPTIONS, SCHEME, ObjectStore, OutOfReach, store_of
from streaming.disk import sync
from streaming.jvm import packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
T = TypeVar("T")
R = TypeVar("R")
_AT_ONCE = 8
"""Requests to a store side by side: each takes as long as a round trip."""
_LOCAL = "file"


@dataclass(frozen=True, slots=True)
class TableFolder:
    """``location``: by Spark's name for it. ``path``: in the ``store``, or on this machine's disks without one."""

    location: str
    path: str
    store: ObjectStore | None = None

    @classmethod
    def on_disk(cls, path: str) -> TableFolder:
        """A folder of this machine."""
        return cls(path, path)

    def inside(self, name: str) -> TableFolder:
        """The folder of this ``name`` in it, which is made if there is none."""
        inner = TableFolder(f"{self.location}/{name}", self._path(name), self.store)
        if self.store is None:  # an object store has no folders
            Path(inner.path).mkdir(exist_ok=True)
            sync(Path(self.path))
        return inner

    def create(self, name: str) -> pa.NativeFile:
        """A new file, to be written and closed."""
        return self._files.open_output_stream(self._path(name), compression=None)

    def seal(self, name: str) -> None:
        """See to it that a file that was closed outlives a crash of the machine."""
        if self.store is None:
            for written in (Path(self._path(name)), Path(self.path)):
                sync(written)

    def open(self, name: str) -> pa.NativeFile:
        """A file, to be read."""
        return self._files.open_input_file(self._path(name))

    def size(self, name: str) -> int | None:
        """How large a file is now, in bytes; None where it is gone."""
        found = self._files.get_file_info(self._path(name))
        return int(found.size) if found.type == fs.FileType.File else None

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; one that is gone already is no mistake."""
        self.each(self._remove, sorted(names))

    def written(self, prefix: str) -> Iterator[tuple[str, float]]:
        """The files whose names begin so, and when they were written, in seconds since 1970."""
        for found in self._files.get_file_info(fs.FileSelector(self.path)):
            if found.type == fs.FileType.File and found.base_name.startswith(prefix):
                yield found.base_name, found.mtime.timestamp()

    def each(self, do: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """What ``do`` makes of each; where every call takes a round trip, several at a time."""
        if self.store is None or len(items) < 2:
            return [do(item) for item in items]
        with ThreadPoolExecutor(min(_AT_ONCE, len(items)), "folder") as pool:
            return list(pool.map(do, items))

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.delete_file(self._path(name))

    @property
    def _files(self) -> fs.FileSystem:
        return fs.LocalFileSystem() if self.store is None else self.store.files()

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"


def try_writing(spark: SparkSession, log: Any, folder: TableFolder, names: Sequence[str]) -> None:
    """Have Hadoop's client write an object into the ``folder`` of the table of Delta's ``log``, and workers one each of
    these ``names``, by Python's; all are removed. Raises `OutOfReach` where workers cannot, or where Hadoop's client
    does not see what they have written; an error of Hadoop's as it is."""
    path, in_hadoop = log.dataPath(), packages(spark).org.apache.hadoop.fs.Path
    files = path.getFileSystem(log.newDeltaHadoopConf())
    of_jvm = in_hadoop(path, f"jvm-{names[0]}")
    files.create(of_jvm).close()
    count = len(names)
    try:
        tried = spark.range(0, count, 1, count).mapInArrow(_writer(folder, names), "why string").collect()
        why = next((row["why"] for row in tried if row["why"] is not None), None)
        if why is None and not all(files.exists(in_hadoop(path, name)) for name in names):
            raise OutOfReach("Spark's client does not see what Python's client has written")
        folder.remove(names)
    except OSError as error:
        why = str(error)
    finally:
        with suppress(Py4JError):  # where nothing may be deleted, an empty object stays
            files.delete(of_jvm, False)
    if why is not None:
        raise OutOfReach(f"Spark's client can write there, and Python's cannot: {why}")


def _writer(folder: TableFolder, names: Sequence[str]) -> Job:
    """The function that runs on workers: each writes the file of its number, or says why it cannot."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            why: str | None = None
            for number in batch.column(0).to_pylist():
                try:
                    folder.create(names[number]).close()
                except OSError as error:
                    why = str(error)
            yield pa.RecordBatch.from_arrays([pa.array([why], pa.string())], names=["why"])

    return write


_SECRETS = frozenset({"access.key", "secret.key", "session.token", "encryption.key"})


def table_folder(jvm: Any, log: Any) -> TableFolder:
    """The folder of the table of Delta's ``log``, by the configuration of Hadoop that it is read with; ``jvm``: the
    packages of that JVM. Hadoop is asked where it lies: it reads a path or a URI in its own way.

    Raises `OutOfReach` where only the JVM reaches it.
    """
    path, configuration = log.dataPath(), log.newDeltaHadoopConf()
    where = path.getFileSystem(configuration).makeQualified(path)
    uri = where.toUri()
    scheme, inner = uri.getScheme(), str(uri.getPath())
    if scheme == _LOCAL:
        return TableFolder(inner, inner)
    if scheme != SCHEME:
        raise OutOfReach(f"Python has no client for {scheme}://")
    utils, bucket = jvm.org.apache.hadoop.fs.s3a.S3AUtils, str(uri.getHost())
    of_bucket = utils.propagateBucketOptions(configuration, bucket)

    def said(name: str) -> str | None:
        if name not in _SECRETS:
            return str(of_bucket.getTrimmed(f"{OPTIONS}{name}", "") or "")
        # By way of Hadoop's credential files too, which may be the only way for these.
        return str(utils.lookupPassword(of_bucket, f"{OPTIONS}{name}", "") or "")

    return TableFolder(str(where.toString()), f"{bucket}{inner}", store_of(said))
