"""Rule-breaking changes, continued: ids to be read again."""

from __future__ import annotations

from typing import Any

import pytest

from snapshotter.core.progress import Progress
from snapshotter.core.requests import Origin

from .mutations import MUTATIONS, mutation

__all__ = ["MUTATIONS"]


@mutation("11", missing=0.4, writes=0.5, rereads_max=2)
def too_many_ids_to_read_again_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """They are taken off the list, and nobody asks for the collection."""
    original = Progress.asked

    def asked(self: Progress, requests: Any) -> Progress:
        return original(self, (r for r in requests if r.origin is not Origin.REREAD))

    patch.setattr(Progress, "asked", asked)
