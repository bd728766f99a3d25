"""What our defaults make of Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors.utils import is_debugging_enabled
from pyspark.sql import SparkSession


def test_pages_of_large_rows_have_few_of_them(spark: SparkSession, tmp_path: Path) -> None:
    """A page is compressed as a whole, outside the heap, so rows of 1 MB do not wait for a hundred of them."""
    rows = spark.range(100, numPartitions=1).selectExpr("concat(id, repeat('x', 1 << 20)) AS text")
    rows.write.parquet(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
    path = jvm.org.apache.hadoop.fs.Path(str(file))  # type: ignore[union-attr]
    parquet = jvm.org.apache.parquet.hadoop  # type: ignore[union-attr]
    reader = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(path, conf))
    try:
        blocks = reader.getFooter().getBlocks()
        columns = [blocks.get(place).getColumns().get(0) for place in range(blocks.size())]
        assert sum(reader.readOffsetIndex(column).getPageCount() for column in columns) >= 20
    finally:
        reader.close()


def test_lines_are_not_told_to_the_jvm(spark: SparkSession) -> None:
    """Each column that a line of Python makes would take eight calls more (bench/README.md)."""
    assert SparkSession.getActiveSession() is not None
    assert not is_debugging_enabled()
