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
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import fs

from streaming.delta.object_store import OPTIONS, SCHEME, ObjectStore, OutOfReach, store_of
from streaming.disk import sync

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


def try_writing(jvm: Any, log: Any, folder: TableFolder, name: str) -> None:
    """Write an object of this ``name`` into the ``folder`` of the table of Delta's ``log``, by Python's client and by
    Hadoop's, and remove both; ``jvm``: the packages of that JVM. Raises `OutOfReach` where Python's cannot, or where
    Hadoop's does not see what it has written; an error of Hadoop's as it is."""
    path = log.dataPath()
    files = path.getFileSystem(log.newDeltaHadoopConf())
    in_hadoop = jvm.org.apache.hadoop.fs.Path(path, f"jvm-{name}")
    files.create(in_hadoop).close()
    try:
        folder.create(name).close()
        if not files.exists(jvm.org.apache.hadoop.fs.Path(path, name)):
            raise OutOfReach("Spark's client does not see what Python's client has written")
        folder.remove([name])
    except OSError as error:
        raise OutOfReach(f"Spark's client can write there, and Python's cannot: {error}") from error
    finally:
        with suppress(Py4JError):  # where nothing may be deleted, an empty object stays
            files.delete(in_hadoop, False)


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
