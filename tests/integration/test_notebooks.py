"""The notebooks on real parts: each runs from top to bottom in its own kernel, and comes to the result it promises.

The last cell of each gives what it has come to, as a dictionary.
"""

from __future__ import annotations

import ast
from typing import Any

import pytest

from notebooks.run import NOTEBOOKS, execute


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, mongo_uri: str) -> Any:
    """Runs a notebook by its number, against the tests' MongoDB; gives what its last cell says."""
    monkeypatch.setenv("MONGODB_URI", mongo_uri)

    def run(number: int) -> dict[str, Any]:
        notebook = execute(NOTEBOOKS[number - 1])
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
        images = [o for cell in code for o in cell.outputs if "image/png" in o.get("data", {})]
        assert images
        found: dict[str, Any] = ast.literal_eval(code[-1].outputs[-1]["data"]["text/plain"])
        return found

    return run


@pytest.mark.thorough
@pytest.mark.slow
def test_a_first_backfill(results: Any) -> None:
    """People change orders during the backfill: READs are dropped, the others land, and the table is equal."""
    found = results(1)
    assert found["equal"] is True
    assert found["windows"] >= 8
    assert found["dropped"] > 0
    assert found["landed"] + found["dropped"] > 15_000


@pytest.mark.slow
def test_a_table_is_repaired(results: Any) -> None:
    """Rows that are missing, wrong, or gone at the source are put right by a filter, by keys and by a range."""
    found = results(2)
    assert found == {"equal": True, "damaged": 881, "left": 0, "deleted": 3}


@pytest.mark.slow
def test_inside_a_window(results: Any) -> None:
    """Three of eight orders change inside the window: their READs are dropped, five land, and one order is new."""
    found = results(3)
    assert found == {"equal": True, "landed": 5, "dropped": 3, "reads": [101, 104, 105, 106, 108]}
