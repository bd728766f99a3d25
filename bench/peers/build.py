"""Builds a peer's Java side with Maven into `.work/peers/<name>`, once, and again when its sources change.

Nothing built is ever committed. Which repository Maven asks is the business of its own settings.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
WORK = SOURCES.parents[1] / ".work" / "peers"
_BUILD_TIMEOUT_S = 600


class PeerBuildError(Exception):
    """A peer could not be built, so it cannot be compared with; the message has Maven's own words."""


def jars(name: str) -> list[Path]:
    """The jars of peer `name`, built if need be from `bench/peers/<name>/pom.xml`. Raises PeerBuildError."""
    source, built = SOURCES / name, WORK / name
    stamp, wanted = built / "stamp", _fingerprint(source)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(built, ignore_errors=True)
        _build(source, built)
        stamp.write_text(wanted)
    return sorted((built / "lib").glob("*.jar"))


def _build(source: Path, built: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerBuildError(
            "`mvn` is not on PATH; install Maven 3.8 or later (with Java 17) to compare with peers"
        )
    command = [
        maven,
        "--batch-mode",
        "--quiet",
        "--file",
        str(source / "pom.xml"),
        f"-Dbench.build={built}",
        "package",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise PeerBuildError(f"Maven could not build {source.name} (exit {done.returncode}):\n{said}")


def _fingerprint(source: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(source)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
