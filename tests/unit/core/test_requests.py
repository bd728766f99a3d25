"""`core.values.requests`: what is not a request."""

from __future__ import annotations

import pytest

from snapshotter.core.values.requests import SnapshotRequest

from .some import ORDERS, request


def test_a_request_needs_an_id_and_names_a_collection_once() -> None:
    """The message shows which."""
    with pytest.raises(ValueError, match="needs an id"):
        SnapshotRequest("", ())
    with pytest.raises(ValueError, match=r"'q1' names a collection twice: shop\.orders, shop\.orders"):
        request("q1", ORDERS, ORDERS)
