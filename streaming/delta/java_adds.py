"""Delta's objects of a table's data files, kept in the JVM as one list (`streaming.delta.table_files.Adds`).

A call into the JVM takes a tenth of a millisecond and more, so what concerns all files is done in one: their texts come
as one, and a landing's files are taken by the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F

from streaming.column_names import KEY
from streaming.jvm import Package

_LOW = f"$.minValues.{KEY}"


def in_order(files: Any) -> Any:
    """A Dataset of Delta's ``AddFile`` sorted by their lowest keys, then by path, in one partition."""
    lowest = F.coalesce(F.get_json_object(F.col("stats"), _LOW), F.lit(""))
    utils = Package("", files._gateway_client).org.apache.spark.api.python.PythonUtils
    return files.coalesce(1).sortWithinPartitions(utils.toSeq([lowest._jc, F.col("path")._jc]))


class JavaAdds:
    """The ``files`` of a list of Java's, in their order; None: there are none. ``beside``: any object of that JVM."""

    def __init__(self, beside: Any, files: Any | None) -> None:
        jvm = Package("", beside._gateway_client)
        self._utils = jvm.org.apache.spark.api.python.PythonUtils
        self._json = jvm.org.apache.spark.sql.delta.util.JsonUtils
        self._new = jvm.java.util.ArrayList
        self._list = self._new() if files is None else self._new(files)

    def texts(self) -> str:
        """What they say, as one JSON array."""
        return str(self._json.mapper().writeValueAsString(self._list))

    def insert(self, place: int, add: Any) -> None:
        """Put one at this place; those behind move up."""
        self._list.add(place, add)

    def replace(self, place: int, add: Any) -> None:
        """Have one take the place of the one at this place."""
        self._list.set(place, add)

    def remove(self, place: int) -> None:
        """Take out the one at this place; those behind move down."""
        self._list.java_remove(place)

    def get(self, place: int) -> Any:
        """The one at this place."""
        return self._list.get(place)

    def take(self, runs: Sequence[tuple[int, int]]) -> Any:
        """Those of these runs of places, as a list of Delta's."""
        if len(runs) == 1:
            return self._utils.toSeq(self._list.subList(*runs[0]))
        taken = self._new()
        for begin, end in runs:
            taken.addAll(self._list.subList(begin, end))
        return self._utils.toSeq(taken)
