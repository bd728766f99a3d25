"""The names of watermark documents, and what an event on one of them says."""

from __future__ import annotations

import pytest

from snapshotter.core.values.watermark_ids import Strategy, close_id, edge_of, is_watermark, open_id
from snapshotter.core.values.window import Edge, WindowId

WINDOW = WindowId("0a1b2c", 17)
OPEN, CLOSE = open_id("shop", WINDOW), close_id("shop", WINDOW)


def test_names_show_engine_run_and_window() -> None:
    """A person who finds one in the collection can tell whose it is."""
    assert (OPEN, CLOSE) == ("shop/0a1b2c/17-open", "shop/0a1b2c/17-close")
    assert is_watermark(OPEN)
    assert is_watermark(CLOSE)


@pytest.mark.parametrize(
    ("strategy", "document_id", "op", "edge"),
    [
        (Strategy.INSERT_INSERT, OPEN, "c", Edge.LOW),
        (Strategy.INSERT_INSERT, CLOSE, "c", Edge.HIGH),
        (Strategy.INSERT_INSERT, OPEN, "d", Edge.LOST),
        (Strategy.INSERT_INSERT, CLOSE, "d", None),
        (Strategy.INSERT_DELETE, OPEN, "c", Edge.LOW),
        (Strategy.INSERT_DELETE, OPEN, "d", Edge.HIGH),
        (Strategy.INSERT_DELETE, CLOSE, "d", None),
        (Strategy.INSERT_INSERT, OPEN, "u", None),
    ],
)
def test_what_an_event_says(strategy: Strategy, document_id: str, op: str, edge: Edge | None) -> None:
    """Low, high, or that the open document is gone; a delete is the high watermark with one strategy only."""
    assert edge_of("shop", strategy, document_id, op) == (None if edge is None else (WINDOW, edge))


@pytest.mark.parametrize("engine", ["shop-2", "sho", "Shop", "a/shop", "shop/0a1b2c"])
def test_other_engines_say_nothing(engine: str) -> None:
    """Neither are names that begin or end alike taken for this engine's."""
    assert edge_of(engine, Strategy.INSERT_INSERT, OPEN, "c") is None
    assert edge_of("shop", Strategy.INSERT_INSERT, open_id(engine, WINDOW), "c") is None
    assert is_watermark(open_id(engine, WINDOW))


@pytest.mark.parametrize(
    "document_id",
    [
        "shop/0a1b2c/17-opened",
        "shop/0a1b2c/x-open",
        "shop/RUN/1-open",
        "/0a/1-open",
        "0a/1-open",
        "",
        5,
        None,
        b"x",
    ],
)
def test_other_documents_are_no_watermarks(document_id: object) -> None:
    """A signal may have any id, of any type."""
    assert not is_watermark(document_id)
    assert edge_of("shop", Strategy.INSERT_INSERT, document_id, "c") is None


def test_only_cluster_time_stays_out_of_the_stream() -> None:
    """The two that write must be seen there."""
    assert [strategy.in_stream for strategy in Strategy] == [True, True, False]
