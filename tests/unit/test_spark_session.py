"""The settings of a session, without starting one."""

import zipfile
from pathlib import Path

from snapshotter import spark_session


def put_jars(ivy: Path) -> list[Path]:
    (ivy / "jars").mkdir(parents=True)
    jars = [
        ivy / "jars" / f"io.delta_{artifact}-{spark_session.delta_version()}.jar"
        for artifact in spark_session.delta_artifacts()
    ]
    for jar in jars:
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("content", "")
    return jars


def test_jars_that_are_there_are_used_without_ivy(tmp_path: Path) -> None:
    """Once downloaded, Delta's own five jars are named directly, and nothing is resolved."""
    jars = put_jars(tmp_path)
    settings = spark_session.session_settings({"spark.jars.ivy": str(tmp_path)}, "local[2]")
    assert settings["spark.jars"].split(",") == [str(jar) for jar in jars]
    assert "spark.jars.packages" not in settings


def test_a_missing_or_broken_jar_means_a_download(tmp_path: Path) -> None:
    """With a jar cut short by a broken download, all are resolved again, without those that Spark ships."""
    broken = put_jars(tmp_path)[2]
    broken.write_bytes(broken.read_bytes()[:20])
    settings = spark_session.session_settings({"spark.jars.ivy": str(tmp_path)}, "local[2]")
    assert settings["spark.jars.packages"].startswith("io.delta:delta-spark_")
    assert "org.*:*" in settings["spark.jars.excludes"].split(",")
    assert "spark.jars" not in settings


def test_what_is_given_wins_and_lists_are_joined(tmp_path: Path) -> None:
    """A given value replaces the default; jars, extensions and Java options are added to ours."""
    put_jars(tmp_path)
    given = {
        "spark.jars.ivy": str(tmp_path),
        "spark.jars": "more.jar",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": "-Dx=y",
        "spark.sql.extensions": "com.example.Other",
    }
    settings = spark_session.session_settings(given, "local[2]")
    assert settings["spark.driver.memory"] == "4g"
    assert settings["spark.driver.extraJavaOptions"] == "-Xss4m -Dx=y"
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,com.example.Other"
    assert settings["spark.jars"].endswith(",more.jar")


def test_partitions_follow_the_cores_of_the_master() -> None:
    """`local[3]` means three shuffle partitions and three for Delta's snapshots."""
    settings = spark_session.defaults("local[3]")
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.databricks.delta.snapshotPartitions"] == "3"
    assert spark_session.core_count("local[3,2]") == 3
    assert spark_session.core_count("local") == 1


def test_only_a_master_of_this_machine_binds_to_loopback() -> None:
    """A driver of a real cluster must be reachable from its executors, so nothing is bound for it."""
    assert spark_session.defaults("spark://127.0.0.1:7077")["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in spark_session.defaults("spark://master.example:7077")
    assert "spark.driver.bindAddress" not in spark_session.defaults(None)
