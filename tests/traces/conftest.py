"""``pytest tests/traces --rewrite-traces`` writes what the machine says now.

Commit only a difference that you can explain.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-traces", action="store_true", help="write the golden traces anew")
