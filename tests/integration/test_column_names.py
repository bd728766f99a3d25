"""`streaming.column_names.fold` against all of Unicode: whatever a reader takes for one name, it takes for one.

The readers are asked, not described: Spark's resolver and Java's lower case in a real JVM, delta-rs, and DuckDB.
"""

from __future__ import annotations

import random
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from streaming.column_names import can_be_nested, fold, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ASSIGNED = [
    chr(code)
    for code in range(0x20, sys.maxunicode + 1)
    if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Cc")
]


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> Callable[[str, str], str]:
    """A text in another case: Java's ``toLowerCase`` or ``toUpperCase``, as Spark and Delta call them."""
    jvm, gateway = cast(Any, spark._jvm), cast(Any, spark.sparkContext._gateway)
    kinds = gateway.new_array(jvm.java.lang.Class, 1)
    kinds[0] = jvm.java.lang.Class.forName("java.util.Locale")
    root = gateway.new_array(jvm.java.lang.Object, 1)
    root[0] = jvm.java.util.Locale.ROOT
    text = jvm.java.lang.Class.forName("java.lang.String")
    return lambda name, value: cast(str, text.getMethod(name, kinds).invoke(value, root))


@pytest.fixture(scope="module")
def mapped(spark: SparkSession, java: Callable[[str, str], str]) -> dict[str, set[str]]:
    """What Java makes of each character: capital, small, small of the capital, as one character and as text."""
    text = "\n".join(ASSIGNED)
    found = {character: {character} for character in ASSIGNED}
    capital = java("toUpperCase", text)
    for forms in (java("toLowerCase", text), capital, java("toLowerCase", capital)):
        for character, form in zip(ASSIGNED, forms.split("\n"), strict=True):
            found[character].add(form)
    simple = spark.range(0x20, sys.maxunicode + 1).selectExpr(
        "cast(id AS int) AS id",
        "cast(reflect('java.lang.Character', 'toUpperCase', cast(id AS int)) AS int) AS upper",
        "cast(reflect('java.lang.Character', 'toLowerCase', cast(id AS int)) AS int) AS lower",
    )
    lowers = dict(simple.where("lower <> id").select("id", "lower").collect())
    for code, upper in simple.where("upper <> id").select("id", "upper").collect():
        found[chr(code)] |= {chr(upper), chr(lowers.get(upper, upper))}
    for code, lower in lowers.items():
        found[chr(code)].add(chr(lower))
    return {character: forms for character, forms in found.items() if len(forms) > 1}


@pytest.fixture(scope="module")
def resolver(spark: SparkSession) -> Callable[[str, str], bool]:
    """Spark's own: whether two names are one where case is ignored."""
    package = cast(Any, spark._jvm).org.apache.spark.sql.catalyst.analysis
    resolve = getattr(package, "package$").__getattr__("MODULE$").caseInsensitiveResolution()
    return lambda one, other: bool(resolve.apply(one, other))


def test_every_character_folds_as_all_of_its_forms(mapped: dict[str, set[str]]) -> None:
    """Java's forms of each assigned character, and Python's (which are those of delta-rs, or newer)."""
    assert len(mapped) > 2_500
    for character, forms in mapped.items():
        assert {fold(form) for form in forms} == {fold(character)}, ascii(character)
    for character in ASSIGNED:
        forms = {character.lower(), character.upper(), character.casefold(), character.title()}
        assert {fold(form) for form in forms} == {fold(character)}, ascii(character)
        assert fold(fold(character)) == fold(character)


def test_names_that_spark_takes_for_one_fold_alike(
    mapped: dict[str, set[str]],
    java: Callable[[str, str], str],
    resolver: Callable[[str, str], bool],
    rng: random.Random,
) -> None:
    """Random names from letters and their forms, and from what Java looks at around a letter (a dot, a final sigma)."""
    letters = [*mapped, *"ΣσςİiIıß\u1e9eǰ\u0307\u0307\u0307\u0345"]
    alike = 0
    for _ in range(3_000):
        name = [rng.choice(letters) for _ in range(rng.randint(1, 4))]
        other = [rng.choice(sorted(mapped.get(c, {c}))) for c in name]
        one, two = "".join(name), "".join(other)
        if resolver(one, two) or java("toLowerCase", one) == java("toLowerCase", two):
            alike += 1
            assert fold(one) == fold(two), (ascii(one), ascii(two))
    assert alike > 1_000


@pytest.mark.guard
def test_names_that_fold_apart_are_columns_beside_each_other(
    spark: SparkSession, tmp_path: Path, mapped: dict[str, set[str]], rng: random.Random
) -> None:
    """One table has a column for every letter with a case, in a form chosen at random: Spark, delta-rs and DuckDB each
    find the right value in each, also in a struct."""
    classes: dict[str, list[str]] = {}
    for character in mapped:
        classes.setdefault(fold(character), []).append(character)
    names = [rng.choice(sorted(members)) for members in classes.values()]
    assert all(can_be_nested(name) for name in names)
    fields = ", ".join(f"{quoted(name)}: INT" for name in names)
    path = str(tmp_path / "letters")
    columns = ", ".join(f"{quoted(name)} INT" for name in names)
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}, inside STRUCT<{fields}>) USING delta")
    values = ", ".join(map(str, range(len(names))))
    spark.sql(f"INSERT INTO delta.`{path}` VALUES ({values}, struct({values}))")
    wanted = list(range(len(names)))
    table = spark.read.format("delta").load(path)
    assert list(table.select(*map(quoted, names)).first() or ()) == wanted
    assert list((table.select(*(f"inside.{quoted(name)}" for name in names)).first()) or ()) == wanted
    listed = ", ".join(f'"{name}"' for name in names)
    delta = DeltaTable(path)
    (row,) = pa.table(QueryBuilder().register("t", delta).execute(f"SELECT {listed} FROM t")).to_pylist()
    assert list(row.values()) == wanted
    nested = ", ".join(f'inside."{name}"' for name in names)
    files = delta.file_uris()
    for columns in (listed, nested):
        found = duckdb.execute(f"SELECT {columns} FROM read_parquet(?)", [files]).fetchone()
        assert list(found or ()) == wanted
