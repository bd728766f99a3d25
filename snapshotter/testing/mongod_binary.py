"""Where a real MongoDB comes from when none was given: the search order, and the message when there is none.

1. `SNAPSHOTTER_TEST_MONGODB_URI`: a name of our own, so that a production address lying around in some other
   variable never receives test writes;
2. `mongod` on PATH;
3. the one inside the wheel of the extra `embedded-mongodb`;
4. a container, where a Docker daemon really answers (a `docker` on PATH proves nothing).
"""

import importlib.util
import os
import shutil
from pathlib import Path

URI_VARIABLE = "SNAPSHOTTER_TEST_MONGODB_URI"
CONTAINER_IMAGE = "mongo:7.0"


class MongoUnavailableError(RuntimeError):
    """No MongoDB could be found, or the one given cannot be used for what was asked."""


def given_uri() -> str | None:
    """The address in the environment, if there is one."""
    return os.environ.get(URI_VARIABLE) or None


def wheel_mongod() -> Path | None:
    """The `mongod` inside the installed wheel, made executable if its installer forgot to."""
    spec = importlib.util.find_spec("fiftyone")  # a namespace: finding it runs no code of it
    for location in (spec.submodule_search_locations or []) if spec else []:
        path = Path(location) / "db" / "bin" / "mongod"
        if path.is_file():
            if not os.access(path, os.X_OK):
                path.chmod(path.stat().st_mode | 0o555)
            return path
    return None


def find_mongod() -> Path | None:
    """A `mongod` that this machine can run, from PATH or from the wheel."""
    on_path = shutil.which("mongod")
    return Path(on_path) if on_path else wheel_mongod()


def docker_answers() -> bool:
    """Whether a Docker daemon replies to a ping."""
    try:
        import docker  # type: ignore[import-untyped, unused-ignore]
        from docker.errors import DockerException  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=5)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except (DockerException, OSError):
        return False
    finally:
        client.close()


def nothing_found(*, docker: bool = False) -> MongoUnavailableError:
    """The error that names all four ways to get a MongoDB; with ``docker``, which is there, the three that are left."""
    instead = (
        f"(4) start a Docker daemon, and pip install 'snapshotter[containers]' ({CONTAINER_IMAGE} is used)."
    )
    if docker:
        instead = (
            "Docker's container, which could be had, is one node without options, and more is asked for."
        )
    return MongoUnavailableError(
        "no MongoDB to test against. Do one of these: "
        f"(1) set {URI_VARIABLE} to the address of a replica set that tests may write to; "
        "(2) put a `mongod` (5.0 or later) on PATH; "
        f"(3) pip install 'snapshotter[embedded-mongodb]' (Linux x86-64); {instead}"
    )
