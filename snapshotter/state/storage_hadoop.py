"""The checkpoint's small files through Hadoop's file systems, by py4j: S3, ABFS, HDFS, or whatever Spark can
reach.

How a file gets its text in one step depends on the store:

- a file system with real renames (HDFS, ABFS, ``file:``): a temporary file, then ``FileContext.rename``,
  which replaces the target for ``write_text`` and is refused where it exists for ``create_text``;
- an object store (S3 and the like): the object appears whole when its stream closes, and a rename would be a
  copy, so it is written in place. ``create_text`` asks for a conditional put (Hadoop 3.4's
  ``If-None-Match``), which a store without it does not honour: there, keep a second engine away by other
  means.

``file:`` through Hadoop checks and then renames, so two processes can both win ``create_text``: local folders
belong to `snapshotter.state.storage.LocalStorage`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from snapshotter.state.storage import StorageError, checked_name
from streaming.jvm import packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OBJECT_STORES = frozenset({"s3", "s3a", "s3n", "gs", "oss", "cos", "cosn", "obs", "wasb", "wasbs"})
_MISSING = "java.io.FileNotFoundException"
# Hadoop's own look finds it, or else S3 refuses the conditional put (412).
_TAKEN = (
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
)


class HadoopStorage:
    """Files under a URI, with the Hadoop configuration (credentials, endpoints) of the Spark session."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._jvm = packages(spark)
        self._root = root.rstrip("/")
        self._configuration: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._numbers = count()
        root_path = self._jvm.org.apache.hadoop.fs.Path(self._root)
        with self._reported("open", ""):
            self._files: Any = root_path.getFileSystem(self._configuration)
            scheme = self._files.getUri().getScheme()
            self._in_place = scheme in _OBJECT_STORES
            if not self._in_place:
                self._context: Any = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                    self._files.getUri(), self._configuration
                )

    @property
    def location(self) -> str:
        return self._root

    def read_text(self, name: str) -> str | None:
        with self._reported("read", name):
            try:
                stream = self._files.open(self._path(name))
            except Py4JJavaError as error:
                if _is(error, _MISSING):
                    return None
                raise
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write_text(self, name: str, text: str) -> None:
        with self._reported("write", name):
            if self._in_place:
                self._put(self._path(name), text, replace=True)
            else:
                self._move(self._draft(name, text), self._path(name), replace=True)

    def create_text(self, name: str, text: str) -> bool:
        with self._reported("create", name):
            try:
                if self._in_place:
                    self._put(self._path(name), text, replace=False)
                else:
                    self._move(self._draft(name, text), self._path(name), replace=False)
            except Py4JJavaError as error:
                if any(_is(error, name) for name in _TAKEN):
                    return False
                raise
            return True

    def list_names(self, folder: str) -> list[str]:
        with self._reported("list", folder):
            path = self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{folder}".rstrip("/"))
            try:
                entries = self._files.listStatus(path)
            except Py4JJavaError as error:
                if _is(error, _MISSING):
                    return []
                raise
            names = [str(entry.getPath().getName()) for entry in entries if entry.isFile()]
            return sorted(name for name in names if not name.startswith("."))

    def delete(self, name: str) -> None:
        with self._reported("delete", name):
            self._files.delete(self._path(name), False)

    def exists(self, name: str) -> bool:
        with self._reported("look for", name):
            try:
                return bool(self._files.getFileStatus(self._path(name)).isFile())
            except Py4JJavaError as error:
                if _is(error, _MISSING):
                    return False
                raise

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{checked_name(name)}")

    def _draft(self, name: str, text: str) -> Any:
        """A temporary file with the text, in the target's folder, under a name of this call's own."""
        folder, _, last = f"{self._root}/{checked_name(name)}".rpartition("/")
        own = f"{os.getpid()}.{threading.get_ident()}.{next(self._numbers)}"
        draft = self._jvm.org.apache.hadoop.fs.Path(f"{folder}/.{last}.{own}.tmp")
        self._put(draft, text, replace=True)
        return draft

    def _put(self, path: Any, text: str, *, replace: bool) -> None:
        builder = self._files.createFile(path).recursive().overwrite(replace)
        if not replace:
            builder = builder.opt("fs.option.create.conditional.overwrite", "true")
        stream = builder.build()
        try:
            stream.write(text.encode("utf-8"))
            if stream.hasCapability("hsync"):
                stream.hsync()
        finally:
            stream.close()

    def _move(self, draft: Any, target: Any, *, replace: bool) -> None:
        option = self._jvm.org.apache.hadoop.fs.Options.Rename
        chosen = option.OVERWRITE if replace else option.NONE
        options = self._jvm.java.lang.reflect.Array.newInstance(chosen.getClass(), 1)
        self._jvm.java.lang.reflect.Array.set(options, 0, chosen)
        try:
            self._context.rename(draft, target, options)
        except Py4JJavaError:
            self._files.delete(draft, False)
            raise

    @contextmanager
    def _reported(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            reason = error.java_exception.toString()
            raise StorageError(f"cannot {what} {name!r} in {self._root}: {reason}") from error


def _is(error: Py4JJavaError, class_name: str) -> bool:
    return bool(error.java_exception.getClass().getName() == class_name)
