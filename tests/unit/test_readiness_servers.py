"""Whose address is shown while a start looks for MongoDB."""

from __future__ import annotations

import pytest

from snapshotter.engine.readiness import servers


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("mongodb://h1:27017,h2/?replicaSet=rs", "h1:27017,h2"),
        ("mongodb://u:secret@h1/db", "h1"),
        ("mongodb://u:se#cret@h1/?authMechanismProperties=A:b@c", "h1"),
        ("mongodb+srv://u:se%40cret@cluster.example.org", "cluster.example.org"),
    ],
)
def test_servers_are_shown_and_nothing_of_a_password(uri: str, shown: str) -> None:
    """Also where it holds what ends an address elsewhere."""
    assert servers(uri) == shown
