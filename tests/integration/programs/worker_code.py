"""Asks workers for the product's code: as the session has it, and with the folder of the start on their path."""

import json
import os
import tempfile

from snapshotter.errors import DefiniteError
from snapshotter.spark_session import spark_builder
from snapshotter.worker_code import check_workers


def main() -> None:
    spark = spark_builder("worker-code", {"spark.local.dir": tempfile.mkdtemp()}, "local[2]")
    found: dict[str, object] = {"environment": os.environ.get("PYTHONSAFEPATH")}
    check_workers(spark)
    found["checked"] = "the same"
    from streaming.column_names import fold

    found["rows"] = spark.sparkContext.parallelize(["A", "b", "C"], 2).map(fold).count()
    spark.sparkContext.environment["PYTHONSAFEPATH"] = ""
    try:
        check_workers(spark)
    except DefiniteError as error:
        found |= {"refused": error.message, "next_step": error.next_step}
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
