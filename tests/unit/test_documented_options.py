"""Every option of Debezium's MongoDB connector is known by name: honoured, taken under another name, or told about."""

from __future__ import annotations

from pathlib import Path

from snapshotter.configuration.options import find

NAMES = Path(__file__).parents[1] / "data" / "debezium_options.txt"
"""Those of Debezium 3.7: of its documentation and of its code, one a line."""


def test_every_documented_option_is_known() -> None:
    """None of them is answered as if it were a mistake."""
    names = NAMES.read_text(encoding="utf-8").split()
    assert len(names) > 100
    assert [name for name in names if find(name) is None] == []
