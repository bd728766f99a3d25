"""The jars that a session needs beside Spark's own: which they are, where Ivy keeps them, and who downloads them.

The first start on a machine has Ivy download them into its own folder, which all projects of a user share. Every later
one finds them there, and needs neither Ivy nor a network.

Invariant: of processes that start at once on one machine, one at a time has Ivy download. Ivy itself does not see to
that: it takes another's half a file for whole, and both end before their JVMs are ready.
"""

from __future__ import annotations

import fcntl
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path

import structlog

from snapshotter.errors import cause_of

_log = structlog.get_logger("snapshotter.run")
SCALA = "2.13"
PACKAGES = "spark.jars.packages"
_IVY = "spark.jars.ivy"
_LOCK = ".snapshotter.lock"
_KAFKA_CONNECTOR, _KAFKA_TOKENS = f"spark-sql-kafka-0-10_{SCALA}", f"spark-token-provider-kafka-0-10_{SCALA}"
_KAFKA_NEEDS = ("org.apache.kafka_kafka-clients-*.jar", "org.apache.commons_commons-pool2-*.jar")
_DELTA_ARTIFACTS = ("delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")
# Patterns for Ivy. Delta and Kafka's connector bring these along for those who have no Spark distribution; what is left
# is Delta's own, the connector's two, Kafka's client, and a pool that the connector keeps clients in.
_SHIPPED_BY_SPARK = (
    *(
        "com.*:*",
        "commons-*:*",
        "javax.*:*",
        "io.airlift:*",
        "io.unitycatalog:*",
        "at.yawk.lz4:*",
        "org.[!a]*:*",
    ),
    *("org.antlr:*", "org.apache.[!cks]*:*", "org.apache.commons:commons-[!p]*"),
)


def ivy_folder(settings: Mapping[str, str]) -> Path:
    """Where Ivy keeps what it has downloaded, shared by all projects of this user."""
    return Path(settings.get(_IVY, str(Path.home() / ".ivy2.5.2")))


def delta_settings(ivy: Path, *, kafka: bool = False) -> dict[str, str]:
    """Delta's extension and catalog, and its jars (with `kafka`, those of Spark's connector too): those that lie in
    Ivy's folder `ivy` from there, the others by download."""
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        _IVY: str(ivy),
    }
    delta = [ivy / "jars" / f"io.delta_{artifact}-{delta_version()}.jar" for artifact in delta_artifacts()]
    connector = _kafka_jars(ivy) if kafka else []
    sought = [(f"io.delta:{delta_artifacts()[0]}:{delta_version()}", delta)]
    sought += [(kafka_package(), connector)] if kafka else []
    there = [
        jars for _, jars in sought if jars and all(map(zipfile.is_zipfile, jars))
    ]  # a broken download is no zip
    missing = [package for package, jars in sought if jars not in there]
    if there:
        settings["spark.jars"] = ",".join(str(jar) for jars in there for jar in jars)
    if missing:
        settings[PACKAGES] = ",".join(missing)
        settings["spark.jars.excludes"] = ",".join(_SHIPPED_BY_SPARK)
    return settings


def kafka_package() -> str:
    """Maven's name of Spark's Kafka connector for the installed Spark."""
    return f"org.apache.spark:{_KAFKA_CONNECTOR}:{metadata.version('pyspark')}"


def _kafka_jars(ivy: Path) -> list[Path]:
    """The jars of the connector as Ivy has named them; those that it needs are of any version."""
    spark = metadata.version("pyspark")
    names = [f"org.apache.spark_{artifact}-{spark}.jar" for artifact in (_KAFKA_CONNECTOR, _KAFKA_TOKENS)]
    names += _KAFKA_NEEDS
    found = [sorted((ivy / "jars").glob(name))[-1:] for name in names]
    return [jar for jars in found for jar in jars] if all(found) else []


def delta_version() -> str:
    return metadata.version("delta-spark")


def delta_artifacts() -> tuple[str, ...]:
    """Maven's names of Delta's jars for the installed Spark; the first one needs the others."""
    spark = ".".join(metadata.version("pyspark").split(".")[:2])
    return (f"delta-spark_{spark}_{SCALA}", *_DELTA_ARTIFACTS)


@contextmanager
def one_download(ivy: Path) -> Iterator[None]:
    """Of all that ask for this, nobody else has Ivy download into its folder ``ivy`` meanwhile. Waits for whoever does.
    A folder that can't be locked is Ivy's to complain of, or shared by machines whose file system has no locks."""
    with ExitStack() as held:
        try:
            ivy.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((ivy / _LOCK).open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _log.info("another process has jars downloaded for Spark; waiting for it", folder=str(ivy))
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            _log.debug("jars are downloaded without a lock", folder=str(ivy), error=cause_of(error))
        yield
