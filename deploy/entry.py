"""What a container of the image begins with (`deploy/Containerfile`).

    driver ARGUMENTS…   Spark's driver on Kubernetes, as Spark calls it: an application is submitted where it stands
    executor            one of Spark's executors there, with what Spark has put into its environment
    healthy PORT        whether the engine's control loop goes on (/healthz): exit code 0 or 1
    jars                fetches the jars of Delta and of Spark's Kafka connector, when the image is built
    anything else       the command line: run -c FILE, status -c FILE, …

The first two are Spark's own protocol with its images. Each becomes the process that it names, so signals reach it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from urllib.error import URLError
from urllib.request import urlopen

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What to become."""
    match arguments:
        case ["driver", *rest]:
            bound = f"spark.driver.bindAddress={environ['SPARK_DRIVER_BIND_ADDRESS']}"
            return [
                f"{environ['SPARK_HOME']}/bin/spark-submit",
                "--conf",
                bound,
                "--deploy-mode",
                "client",
                *rest,
            ]
        case ["executor"]:
            return _executor(environ)
        case _:
            return ["snapshotter", *arguments]


def _executor(environ: Mapping[str, str]) -> list[str]:
    numbered = {int(found[1]): value for name, value in environ.items() if (found := _OPTION.fullmatch(name))}
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    classes = [
        environ.get("SPARK_CLASSPATH", ""),
        f"{environ['SPARK_HOME']}/conf",
        f"{environ['SPARK_HOME']}/jars/*",
    ]
    java = f"{environ['JAVA_HOME']}/bin/java" if environ.get("JAVA_HOME") else "java"
    return [
        *(java, *(numbered[n] for n in sorted(numbered)), f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", ":".join(part for part in classes if part), BACKEND),
        *("--driver-url", environ["SPARK_DRIVER_URL"]),
        *("--executor-id", environ["SPARK_EXECUTOR_ID"]),
        *("--cores", environ["SPARK_EXECUTOR_CORES"]),
        *("--app-id", environ["SPARK_APPLICATION_ID"]),
        *("--hostname", environ["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", environ["SPARK_RESOURCE_PROFILE_ID"]),
        *("--podName", environ["SPARK_EXECUTOR_POD_NAME"]),
    ]


def healthy(port: str) -> bool:
    """Whether whoever listens on this ``port`` says so."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, TimeoutError):
        return False


def fetch_jars() -> None:
    """Start Spark once: what it needs is kept where Ivy keeps it."""
    from snapshotter.spark_session import spark_builder

    spark_builder("jars", master="local[1]", kafka=True).stop()


def main() -> None:
    """Whatever the arguments say."""
    arguments = sys.argv[1:]
    match arguments:
        case ["healthy", port]:
            sys.exit(0 if healthy(port) else 1)
        case ["jars"]:
            fetch_jars()
        case _:
            words = command(arguments, os.environ)
            os.execvp(words[0], words)


if __name__ == "__main__":
    main()
