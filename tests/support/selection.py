"""Which values of a parametrized test `make test` asks, and which only `make test-thorough`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def rest_thorough(values: Iterable[Any], asked: Container[Any]) -> list[Any]:
    """The values as parameters, in their order: those that are asked, and the rest among the thorough tests."""
    return [v if v in asked else pytest.param(v, marks=pytest.mark.thorough) for v in values]
