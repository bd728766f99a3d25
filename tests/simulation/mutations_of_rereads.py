"""Rule-breaking changes, continued: ids to be read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from snapshotter.core.rules.in_flight import InFlight
from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin
from streaming.namespaces import Namespace

from .mutations import MUTATIONS, mutation

__all__ = ["MUTATIONS"]


@mutation("11", missing=0.4, writes=0.5, rereads_max=2)
def too_many_ids_to_read_again_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """They are taken off the list, and nobody asks for the collection."""
    original = Progress.accepting

    def asked(self: Progress, requests: Any) -> Progress:
        return original(self, (r for r in requests if r.origin is not Origin.REREAD))

    patch.setattr(Progress, "accepting", asked)


@mutation("3", missing=0.3, writes=0.5)
def single_ids_are_read_beside_a_range_that_holds_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InFlight, "free_of", _beside_ranges)
    patch.setattr(InFlight, "giving_way", lambda self, namespace, taken: [])
    patch.setattr("tests.simulation.oracles.Oracles.disjoint", lambda self, one, two: None)


def _beside_ranges(self: InFlight, namespace: Namespace, bounds: Mapping[str, Bound]) -> Iterator[Bound]:
    """All ids that no window of single ids reads already."""
    reading = self.reading_ids(namespace)
    yield from (b for key, b in bounds.items() if not any(w.target.holds(key) for w in reading))
