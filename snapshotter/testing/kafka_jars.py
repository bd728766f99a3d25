"""The jars of a Kafka broker, and of whatever else tests need: downloaded once by the Ivy that PySpark brings, into the
folder that Ivy keeps for Spark.

So a machine needs Java and a package registry, and no Kafka. The jars are gathered in a folder of their own that is
then moved into place in one step: it is there whole, or not at all. Which registry is asked is Ivy's business; whoever
has set `DEFAULT_ARTIFACT_REPOSITORY`, which Spark honours, for its own is honoured here as well.
"""

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from snapshotter.spark_jars import SCALA, ivy_folder

VERSION = "4.1.1"
_LOG4J = (
    "2.24.3"  # the one that this Kafka brings; its binding to slf4j is missing among Kafka's dependencies
)
JARS_VARIABLE = "SNAPSHOTTER_TEST_KAFKA_JARS"
REGISTRY_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
_DOWNLOAD_SECONDS = 300

_MODULE = f"""<ivy-module version="2.0">
  <info organisation="snapshotter" module="kafka-for-tests"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{SCALA}" rev="{VERSION}" conf="default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{_LOG4J}" conf="default"/>
  </dependencies>
</ivy-module>
"""
_SETTINGS = """<ivysettings>
  <settings defaultResolver="given"/>
  <resolvers><ibiblio name="given" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""


class NotGathered(RuntimeError):
    """Jars that could not be downloaded; the message says why."""


class KafkaUnavailableError(RuntimeError):
    """There is no Kafka to test against; the message says how to get one."""


def kafka_jars() -> Path:
    """The folder of a broker's jars. Raises KafkaUnavailableError."""
    if given := os.environ.get(JARS_VARIABLE):
        if not list(Path(given).glob("kafka_*.jar")):
            raise KafkaUnavailableError(f"{JARS_VARIABLE}={given}: no kafka_*.jar lies there")
        return Path(given)
    folder = ivy_folder({}) / f"kafka-{VERSION}"
    if not folder.is_dir():
        try:
            gather(folder, _MODULE, f"kafka_{SCALA}-*.jar")
        except NotGathered as failed:
            raise _failed(str(failed)) from failed
    return folder


def gather(folder: Path, module: str, proof: str) -> None:
    """Download what the Ivy ``module`` (XML) depends on, and put its jars into ``folder``, which is not there yet;
    ``proof`` is a pattern that one of them fits. Raises NotGathered."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        done = subprocess.run(
            _command(draft, module),
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
        if done.returncode or not list((draft / "jars").glob(proof)):
            raise NotGathered("\n".join((done.stdout + done.stderr).strip().splitlines()[-15:]))
        # Another process may have been quicker. Its jars are the same.
        if not folder.is_dir():
            (draft / "jars").rename(folder)
    except FileNotFoundError as error:
        raise NotGathered(f"{error.filename} is not there") from error
    except subprocess.TimeoutExpired as error:
        raise NotGathered(f"no end after {_DOWNLOAD_SECONDS} s") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _command(draft: Path, module: str) -> list[str]:
    (draft / "ivy.xml").write_text(module)
    settings: list[str] = []
    if root := os.environ.get(REGISTRY_VARIABLE):
        (draft / "ivysettings.xml").write_text(_SETTINGS.format(root=root))
        settings = ["-settings", str(draft / "ivysettings.xml")]
    # A cache of its own: what Spark's Ivy has cached names resolvers that this one does not know.
    places = [
        "-cache",
        str(draft / "cache"),
        "-retrieve",
        str(draft / "jars" / "[artifact]-[revision].[ext]"),
    ]
    command = [java(), "-jar", str(_ivy()), *settings, "-ivy", str(draft / "ivy.xml"), "-confs", "default"]
    return [*command, "-types", "jar", "bundle", *places]  # some name their jar after OSGi


def java() -> str:
    """The Java that Spark would take."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def _ivy() -> Path:
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
    jars = sorted(folder.glob("ivy-*.jar"))
    if not jars:
        raise NotGathered("PySpark, whose Ivy would download it, is not installed")
    return jars[-1]


def _failed(reason: str) -> KafkaUnavailableError:
    return KafkaUnavailableError(
        f"Kafka {VERSION} could not be downloaded: {reason}\n"
        f"It takes Java 17 and a package registry ({REGISTRY_VARIABLE} names one of your own), or an unpacked Kafka: "
        f"set {JARS_VARIABLE} to its folder `libs`."
    )
