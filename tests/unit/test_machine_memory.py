"""How much memory there is: the machine's, or less where a control group says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.machine_memory import memory_bytes


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"memory.max": "max\n"}, None),
        ({"memory.max": "104857600\n"}, 100 << 20),
        ({"memory/memory.limit_in_bytes": "52428800\n"}, 50 << 20),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
    ],
)
def test_what_a_container_leaves(files: dict[str, str], limit: int | None, tmp_path: Path) -> None:
    """By either version of control groups; no limit, or one beyond the machine, is the machine's memory."""
    whole = memory_bytes(tmp_path)
    assert whole > 1 << 30
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_bytes(tmp_path) == (whole if limit is None else limit)
