"""Ranges of keys as a condition of Spark's, whatever the keys are."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from streaming.column_names import KEY, literal
from streaming.delta.delta_log import active
from streaming.delta.state_merge import within

PLAIN = ("~_id!Na5", 'a"b', "a--b", "/*", ":x", "{", "%_", "`")
ODD = ("it's", "back\\slash", "\\u0041", "${spark.app.name}", "größe", "two\nlines", "\0", "\U0001f600")


@pytest.mark.parametrize("keys", [PLAIN, ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("escaped", ["false", "true"])
def test_a_range_of_one_key_finds_it_alone(spark: SparkSession, keys: tuple[str, ...], escaped: str) -> None:
    """Plain ones are written as text, others are not, as how Spark reads it depends on its settings."""
    session = spark.newSession()
    session.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
    assert [literal(key) is not None for key in keys] == [keys is PLAIN] * len(keys)
    rows = session.createDataFrame([(key,) for key in (*PLAIN, *ODD)], f"{KEY} string")
    with active(session):
        found = {key: [row[0] for row in rows.where(within(KEY, [(key, key)])).collect()] for key in keys}
        everything = rows.where(within(KEY, [(key, key) for key in (*PLAIN, *ODD)])).count()
    assert found == {key: [key] for key in keys}
    assert everything == len(PLAIN) + len(ODD)
    assert rows.where(within(KEY, [])).count() == 0
