"""Long tests of the whole engine: killed, failed over, on a cluster.

Chosen by `-m thorough`. `make test` leaves them out until each has been seen to pass, in bounded time, on a machine
that does nothing else.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.thorough)
