"""`snapshotter.class_archive`: a JVM is told of an archive that is there, unless somebody has chosen another."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter import spark_jars, spark_session
from snapshotter.class_archive import java_options, place

JAVA = "spark.driver.extraJavaOptions"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_it_lies_with_the_users_caches(tmp_path: Path) -> None:
    """One for each release of Spark and of Delta, so that an older one is not in the way."""
    assert place({"XDG_CACHE_HOME": str(tmp_path)}).parent == tmp_path / "snapshotter"
    assert place({}).parent == Path.home() / ".cache" / "snapshotter"
    assert all(version in place({}).name for version in ("4.2", spark_jars.delta_version()))


def test_sessions_use_the_one_that_is_there(cache: Path) -> None:
    """Without one there is nothing to say to Java."""
    assert "Archive" not in spark_session.session_settings({}, "local[2]")[JAVA]
    place().parent.mkdir()
    place().write_bytes(b"classes")
    assert f'"-XX:SharedArchiveFile={place()}" ' in spark_session.session_settings({}, "local[2]")[JAVA]


@pytest.mark.parametrize(
    "given", ["-XX:SharedArchiveFile=/mine.jsa", "-XX:ArchiveClassesAtExit=/mine.jsa", "-Xmx1g -Xshare:off"]
)
def test_a_choice_stays(cache: Path, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was made."""
    place().parent.mkdir()
    place().write_bytes(b"classes")
    assert java_options(["", given]) == ""
    assert str(place()) not in spark_session.session_settings({JAVA: given}, "local[2]")[JAVA]
    monkeypatch.setenv("JDK_JAVA_OPTIONS", given)
    assert str(place()) not in spark_session.session_settings({}, "local[2]")[JAVA]
