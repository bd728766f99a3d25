"""A catalogue that hangs keeps no landing waiting for long (`snapshotter.landing.registration`)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from snapshotter.landing.registration import Registration
from snapshotter.testing.processes import wait_until
from streaming.delta.catalog_names import CatalogTemplate
from streaming.namespaces import Namespace

ORDERS, ITEMS, PEOPLE = (Namespace("shop", name) for name in ("orders", "items", "people"))


class Hanging(Registration):
    """In a catalogue that says nothing before it is ``let`` to."""

    def __init__(self, **more: Any) -> None:
        super().__init__(None, CatalogTemplate("{db}.{collection}"), **more)  # type: ignore[arg-type] # it is not asked
        self.let, self.there = threading.Event(), list[str]()

    def _register(self, parts: tuple[str, ...], path: str) -> str | None:
        assert self.let.wait(30), path
        self.there.append(".".join(parts))
        return None


@pytest.fixture
def hanging() -> Any:
    made = Hanging(patience=0.2)
    yield made
    made.let.set()


def test_a_catalogue_that_hangs_is_waited_for_once(hanging: Hanging) -> None:
    """A little; the tables that come behind are not kept at all, it is said once, and all are registered in the end."""
    begun = time.monotonic()
    with capture_logs() as logged:
        for namespace in (ORDERS, ITEMS, PEOPLE):
            hanging.register(namespace, "somewhere")
    assert time.monotonic() - begun < 2 * 0.2
    assert [(line["event"][:34], line["name"]) for line in logged] == [
        ("the catalogue does not answer: tab", "shop.orders")
    ]
    hanging.let.set()
    wait_until(lambda: len(hanging.there) == 3, what="the catalogue to have them all")


def test_a_catalogue_that_answers_is_waited_for(hanging: Hanging) -> None:
    """So that a table is there once it has rows. A second time nothing is asked."""
    hanging.let.set()
    for _ in range(2):
        hanging.register(ORDERS, "somewhere")
    assert hanging.there == ["shop.orders"]
