"""``make demo``: the product's main job from nothing, small, by the command that it runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from snapshotter.testing.mongod_binary import URI_VARIABLE
from tests.support.class_archive import quick_java

pytestmark = [pytest.mark.slow, pytest.mark.guard]
DOCUMENTS = 3_000
_SECONDS = 900


def test_the_demo_ends_with_a_table_that_is_equal(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It shows the signal that it inserts, backfills while writers change the shop, tells of windows as they land, and
    ends with code 0 and a summary: what was read and landed, how fast, and how long the cold start took, what was
    written meanwhile, the lag, that collection and table are equal, a file that replays it, and what to do next. It
    leaves nothing else behind, and nothing where it was called."""
    scratch = tmp_path_factory.mktemp("scratch")
    command = "import sys; from snapshotter.cli import main; sys.exit(main())"
    mine = {name: value for name, value in os.environ.items() if name != URI_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", command, "demo", "--docs", str(DOCUMENTS), "--rate", "400"],
        cwd=tmp_path,
        env={**mine, "JAVA_TOOL_OPTIONS": quick_java(), "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    lines = done.stderr.splitlines()
    (signal,) = (line for line in lines if "execute-snapshot" in line)
    assert '"data-collections": ["shop.orders"]' in signal
    reads, windows, speed = found(
        lines, r"backfilled +([\d,]+) documents, (\d+) windows, [\d.]+ s: ([\d,]+)/s"
    )
    landed, superseded = found(lines, r"READs +([\d,]+) landed, ([\d,]+) superseded by streamed changes")
    # Writers delete and insert while it is read: about as many as were loaded.
    assert reads == landed + superseded > DOCUMENTS // 2
    assert min(windows, speed, superseded) > 0
    (changes,) = found(lines, r"meanwhile +([\d,]+) changes were written; lag of the stream at most \d+ s")
    assert changes > 0
    (equal,) = found(lines, r"verify +([\d,]+) documents: collection and table are equal")
    assert equal > 0
    assert any(re.match(r" +first rows after [\d.]+ s \(a cold start\)", line) for line in lines)
    assert any(
        re.search(r"windows?\b.* landed: [\d,]+ rows, [\d,]+ READs superseded", line) for line in lines
    )
    (replay,) = scratch.glob("snapshotter-demo-*")
    assert f"replay       {replay}" in lines
    shown = json.loads(re.findall(r'id="recording">(.*?)</script>', replay.read_text(), re.DOTALL)[0])
    assert sum(window["rows"] for window in shown["windows"]) == landed
    assert shown["frames"][-1]["model"]["engine"]["name"] == "demo"
    assert lines[-1].startswith("next:        snapshotter init")


def found(lines: list[str], pattern: str) -> list[int]:
    """The numbers of the one line that says this."""
    (match,) = (match for line in lines if (match := re.fullmatch(pattern, line)))
    return [int(text.replace(",", "")) for text in match.groups()]
