"""A command that starts Spark and soon ends; says whether its JVM has an archive of classes."""

import sys
import tempfile
from pathlib import Path

from snapshotter.spark_session import spark_builder

if __name__ == "__main__":
    spark = spark_builder("brief", {"spark.local.dir": tempfile.mkdtemp()}, "local[1]", brief=True)
    assert spark.range(10).count() == 10
    process = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    print(
        ".jsa"
        in "".join(
            line for line in Path(f"/proc/{process}/maps").read_text().splitlines() if sys.argv[1] in line
        )
    )
    spark.stop()
