"""The settings of a session, without starting one."""

import tempfile
import threading
import zipfile
from pathlib import Path

import pytest

from snapshotter import spark_jars, spark_session

JAVA = "spark.driver.extraJavaOptions"
CHOICES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "SPARK_CONF_DIR", "SPARK_HOME")


@pytest.fixture
def nothing_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither by whoever runs the tests, nor by `snapshotter prepare` on their machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)


def put_jars(ivy: Path) -> list[Path]:
    (ivy / "jars").mkdir(parents=True)
    jars = [
        ivy / "jars" / f"io.delta_{artifact}-{spark_jars.delta_version()}.jar"
        for artifact in spark_jars.delta_artifacts()
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
    assert "com.*:*" in settings["spark.jars.excludes"].split(",")
    assert "spark.jars" not in settings


@pytest.mark.usefixtures("nothing_chosen")
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
    assert settings[JAVA] == f"-Xss4m {spark_session.LAUNCHER} -Dx=y {spark_session.COLLECTOR}"
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,com.example.Other"
    assert settings["spark.jars"].endswith(",more.jar")


def test_partitions_follow_the_cores_of_the_master() -> None:
    """`local[3]` means three shuffle partitions and three for Delta's snapshots."""
    settings = spark_session.defaults("local[3]")
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.databricks.delta.snapshotPartitions"] == "3"
    assert spark_session.core_count("local[3,2]") == 3
    assert spark_session.core_count("local") == 1


@pytest.mark.parametrize("name", ["spark.ui.enabled", "spark.eventLog.enabled"])
def test_who_looks_at_sparks_pages_sees_all(name: str) -> None:
    """Where nobody does, Spark keeps little for them. What is set is kept."""
    retained = "spark.ui.retainedJobs"
    assert spark_session.session_settings({}, "local[2]")[retained] == "100"
    assert spark_session.session_settings({name: "false"}, "local[2]")[retained] == "100"
    assert retained not in spark_session.session_settings({name: "true"}, "local[2]")
    assert spark_session.session_settings({retained: "7"}, "local[2]")[retained] == "7"


def test_pages_that_spark_defaults_switch_on_show_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads that file beside what it is given."""
    (tmp_path / "spark-defaults.conf").write_text("spark.eventLog.enabled   true\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "spark.ui.retainedJobs" not in spark_session.session_settings({}, "local[2]")


def test_only_a_master_of_this_machine_binds_to_loopback() -> None:
    """A driver of a real cluster must be reachable from its executors, so nothing is bound for it."""
    assert spark_session.defaults("spark://127.0.0.1:7077")["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in spark_session.defaults("spark://master.example:7077")
    assert "spark.driver.bindAddress" not in spark_session.defaults(None)


def test_workers_are_forked_from_our_daemon_where_they_share_the_drivers_environment() -> None:
    """Elsewhere a job may bring the product along only once its workers run. Who sets another one gets that."""
    name, ours = "spark.python.daemon.module", spark_session.WORKER_DAEMON
    assert spark_session.defaults("local[2]")[name] == ours
    assert name not in spark_session.defaults("spark://master.example:7077")
    assert name not in spark_session.defaults(None)
    assert spark_session.session_settings({name: "mine"}, "local[2]")[name] == "mine"


@pytest.mark.usefixtures("nothing_chosen")
def test_a_local_driver_collects_in_parallel() -> None:
    """G1 would mark the heap at every one of Spark's pages. The JVM of a real cluster's driver is left as it is."""
    assert spark_session.COLLECTOR in spark_session.session_settings({}, "local[2]")[JAVA].split()
    assert (
        spark_session.COLLECTOR not in spark_session.session_settings({}, "spark://master.example:7077")[JAVA]
    )


@pytest.mark.usefixtures("nothing_chosen")
@pytest.mark.parametrize("place", [JAVA, "spark.driver.defaultJavaOptions", *CHOICES[:3]])
def test_who_chooses_a_collector_has_chosen(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two collectors, and Java does not start: whoever names one, in the settings or the environment, gets that one."""
    given = {}
    if place in CHOICES:
        monkeypatch.setenv(place, "-Da=b -XX:+UseZGC")
    else:
        given[place] = "-Da=b -XX:+UseZGC"
    assert spark_session.COLLECTOR not in spark_session.session_settings(given, "local[2]")[JAVA]


@pytest.mark.usefixtures("nothing_chosen")
def test_a_collector_in_spark_defaults_is_a_choice_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`spark-defaults.conf` is read by Spark, beside what the builder is given."""
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.defaultJavaOptions -XX:+UseG1GC\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_session.COLLECTOR not in spark_session.session_settings({}, "local[2]")[JAVA]


@pytest.mark.usefixtures("nothing_chosen")
@pytest.mark.parametrize("chosen", ["-XX:TieredStopAtLevel=4", "-XX:-TieredCompilation", "-Xint"])
def test_a_short_life_compiles_once(chosen: str) -> None:
    """Java's first compiler alone, with the room for code that it has beside the second; but not where somebody has
    chosen one, nor for an engine that goes on."""
    brief = spark_session.session_settings({}, "local[2]", brief=True)[JAVA].split()
    assert {"-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"} <= set(brief)
    assert spark_session.BRIEF not in spark_session.session_settings({}, "local[2]")[JAVA]
    theirs = spark_session.session_settings({JAVA: chosen}, "local[2]", brief=True)[JAVA]
    assert chosen in theirs
    assert spark_session.BRIEF not in theirs


def test_a_session_does_not_wait_for_its_accumulators() -> None:
    """Whoever takes them notices the end a second later. He is told of it all the same, and of nothing else."""
    told, over = threading.Event(), threading.Event()

    class Accumulators:
        def shutdown(self) -> None:
            told.set()
            assert over.wait(60)

        def handle_error(self, *_: object) -> None:
            raise AssertionError("the JVM's end is no news")

    server = Accumulators()
    spark_session._quick_to_end(server)
    server.shutdown()
    assert told.wait(60)
    over.set()
    server.handle_error(None, None)


@pytest.mark.usefixtures("nothing_chosen")
def test_no_folder_is_made_where_a_command_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own folder for tables is among temporary files, unless somebody has chosen one."""
    place = "spark.sql.warehouse.dir"
    mine = {"spark.jars.ivy": str(tmp_path)}
    assert spark_session.session_settings(mine, "local[2]")[place].startswith(
        Path(tempfile.gettempdir()).as_uri()
    )
    assert spark_session.session_settings({**mine, place: "here"}, "local[2]")[place] == "here"
    (tmp_path / "spark-defaults.conf").write_text(f"{place} there\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert place not in spark_session.session_settings(mine, "local[2]")
