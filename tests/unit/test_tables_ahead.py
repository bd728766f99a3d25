"""Which tables a start looks into before anybody needs them."""

from __future__ import annotations

from snapshotter.core.values.progress import Progress
from snapshotter.engine.first_load import AHEAD
from snapshotter.engine.tables_ahead import busiest
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace


def test_the_busiest_of_captured_tables_come_first() -> None:
    """By how many commits they have; and no more than a few of them."""
    names = [Namespace("shop", f"c{n}") for n in range(9)]
    progress = Progress(tables={name: TableMark("id", n % 7) for n, name in enumerate(names)})
    captured = {name for name in names if name.collection != "c6"}
    order = ["c5", "c4", "c3", "c2", "c1", "c8", "c0", "c7"]
    assert busiest(progress, captured.__contains__) == [Namespace("shop", name) for name in order[:AHEAD]]
    assert busiest(Progress(), captured.__contains__) == []
