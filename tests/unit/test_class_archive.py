"""Archives of classes: which JVM writes one, which has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapshotter.class_archive import folder, java_options

LATER = 1e12


def written(options: str) -> Path:
    """What the JVM with these options would have written when it ended."""
    (file,) = [part.split("=", 1)[1] for part in options.split() if "ArchiveClassesAtExit" in part]
    Path(file).write_text("classes")
    return Path(file)


def test_the_first_writes_what_those_after_it_have(tmp_path: Path) -> None:
    """Not at once: a JVM may still be writing. Of several one is kept, and the others go."""
    one, two = (written(java_options(tmp_path, "-Xss4m", now=lambda: 0.0)) for _ in range(2))
    assert "ArchiveClassesAtExit" in java_options(tmp_path, "-Xss4m", now=lambda: one.stat().st_mtime + 0.5)
    options = java_options(tmp_path, "-Xss4m", now=lambda: LATER)
    (archive,) = tmp_path.iterdir()
    assert options.startswith(f"-XX:SharedArchiveFile={archive} ")
    assert not one.exists()
    assert not two.exists()
    late = archive.with_name(f"{archive.stem}.late.new")
    late.write_text("classes")
    assert java_options(tmp_path, "", now=lambda: LATER) == options
    assert list(tmp_path.iterdir()) == [archive]


def test_what_a_killed_jvm_has_written_is_no_archive(tmp_path: Path) -> None:
    """It has no header yet."""
    for content in (b"", bytes(5000)):
        written(java_options(tmp_path, "")).write_bytes(content)
        assert "ArchiveClassesAtExit" in java_options(tmp_path, "", now=lambda: LATER)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa", "-XX:ArchiveClassesAtExit=mine.jsa"]
)
def test_who_says_something_of_archives_is_left_alone(tmp_path: Path, given: str) -> None:
    """Java takes one of them alone."""
    assert java_options(tmp_path, f"-Xss4m {given}") == ""
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_there_is_none(tmp_path: Path) -> None:
    """A file is where the folder would be; a folder's name is no word of Java's options."""
    (tmp_path / "file").touch()
    assert java_options(tmp_path / "file", "") == ""
    assert java_options(tmp_path / "with space", "") == ""


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the same one, upgraded: its archive would be refused for ever."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    names = set()
    for changed in (1, 2):
        os.utime(java, (changed, changed))
        names.add(written(java_options(tmp_path / "cache", "")).name.rsplit(".", 2)[0])
    assert len(names) == 2


def test_it_lies_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As XDG says."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert folder() == Path("/somewhere/snapshotter/java")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert folder() == Path.home() / ".cache/snapshotter/java"
