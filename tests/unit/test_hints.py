"""The file through which an engine reaches the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.engine.hints import KNOWN_MAX, HintsWriter
from streaming.namespaces import Namespace
from streaming.source.hints import Hints, read_hints, write_hints


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Nonce, density and names come back, and a second write replaces the first."""
    path = tmp_path / "hints.json"
    known = (Namespace("shop", "orders"), Namespace("shop", "a.b"))
    for hints in (Hints(nonce=3, events_per_second=12.5, known=known), Hints(nonce=4)):
        write_hints(path, hints)
        assert read_hints(str(path)) == hints
    assert [file.name for file in tmp_path.iterdir()] == ["hints.json"]


def test_no_file_means_no_hints(tmp_path: Path) -> None:
    """The source may be asked before the engine has written anything."""
    assert read_hints(None) == read_hints(str(tmp_path / "none.json")) == Hints(0, None)


@pytest.mark.parametrize("text", ["", "[]", '{"nonce": "x"}', '{"density": 5}', '{"known": ["shop"]}'])
def test_a_file_that_holds_no_hints_is_named(tmp_path: Path, text: str) -> None:
    """A wrong path must not pass for a missing file."""
    path = tmp_path / "hints.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"hints\.file=.*hints\.json.*holds no hints"):
        read_hints(str(path))


def test_the_engine_goes_on_from_the_last_nonce(tmp_path: Path) -> None:
    """A nonce only grows, also when the engine starts again: an old one would ask for nothing."""
    path = tmp_path / "hints.json"
    first = HintsWriter(path)
    first.request_batch()
    first.request_batch()
    assert read_hints(str(path)).nonce == 2
    HintsWriter(path).request_batch()
    assert read_hints(str(path)).nonce == 3


def test_density_follows_recent_batches(tmp_path: Path) -> None:
    """Events a second of cluster time: older batches fade, an empty one counts, and a batch within one second too."""
    path = tmp_path / "hints.json"
    writer = HintsWriter(path)
    assert read_hints(str(path)).events_per_second is None
    writer.learn(1_000, 10.0)
    assert read_hints(str(path)).events_per_second == pytest.approx(100.0)
    for _ in range(20):
        writer.learn(10, 10.0)
    assert read_hints(str(path)).events_per_second == pytest.approx(1.0, rel=0.01)
    writer.learn(5_000, 0.0)
    dense = read_hints(str(path)).events_per_second
    assert dense is not None
    assert dense > 100
    writer.request_batch()
    assert read_hints(str(path)).events_per_second == dense


def test_the_collections_with_most_events_are_known(tmp_path: Path) -> None:
    """Those of the batches so far, the busiest where there are many; who falls silent gives way. What is known is
    written when it changes."""
    path = tmp_path / "hints.json"
    writer = HintsWriter(path)
    orders, *others = (
        Namespace("shop", name) for name in ("orders", *(f"c{n:02}" for n in range(KNOWN_MAX)))
    )
    writer.meet({orders: 1_000})
    assert read_hints(str(path)).known == (orders,)
    writer.meet({})
    writer.meet(dict.fromkeys(others, 10))
    assert read_hints(str(path)).known == (*others[:-1], orders)
    for _ in range(10):
        writer.meet(dict.fromkeys(others, 10))
    assert read_hints(str(path)).known == tuple(others)


def test_a_wait_lasts_until_it_is_lifted(tmp_path: Path) -> None:
    """Requests and densities leave it as it is; 0 takes it away."""
    path = tmp_path / "hints.json"
    writer = HintsWriter(path)
    writer.wait(4)
    writer.request_batch()
    writer.learn(10, 1.0)
    assert read_hints(str(path)).wait_seconds == 4
    writer.wait(0)
    assert read_hints(str(path)).wait_seconds == 0


def test_a_hold_lasts_until_it_is_lifted(tmp_path: Path) -> None:
    """Beside whatever else is told."""
    path = tmp_path / "hints.json"
    writer = HintsWriter(path)
    writer.hold(120)
    writer.request_batch()
    writer.wait(4)
    assert read_hints(str(path)) == Hints(nonce=1, wait_seconds=4, hold_seconds=120)
    writer.hold(0)
    assert read_hints(str(path)).hold_seconds == 0
