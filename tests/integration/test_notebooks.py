"""The notebooks on real parts: each runs from top to bottom, and comes to the result it promises.

The last cell of each gives what it has come to, as a dictionary. They share one kernel, and so one JVM that has warmed
up; each begins without the names of the one before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from nbformat import NotebookNode

from notebooks.run import NOTEBOOKS, execute
from tests.support.class_archive import quick_java

pytestmark = [pytest.mark.slow, pytest.mark.guard]


@pytest.fixture(scope="module")
def executed(mongo_uri: str) -> Iterator[list[NotebookNode]]:
    """All of them, against the tests' MongoDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MONGODB_URI", mongo_uri)
        patch.setenv("JAVA_TOOL_OPTIONS", quick_java())
        yield execute(*NOTEBOOKS)


def result(notebook: NotebookNode) -> dict[str, Any]:
    """What its last cell says. Every cell was executed, in its order, and there is a plot."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    first = code[0].execution_count
    assert [cell.execution_count for cell in code] == list(range(first, first + len(code)))
    assert [o for cell in code for o in cell.outputs if "image/png" in o.get("data", {})]
    found: dict[str, Any] = ast.literal_eval(code[-1].outputs[-1]["data"]["text/plain"])
    return found


def test_a_first_backfill(executed: list[NotebookNode]) -> None:
    """People change orders during the backfill: some READs are superseded, the others land, and the table is equal."""
    found = result(executed[0])
    assert found["equal"] is True
    assert found["windows"] >= 8
    assert found["dropped"] > 0
    assert found["landed"] + found["dropped"] > 15_000


def test_a_table_is_repaired(executed: list[NotebookNode]) -> None:
    """Rows that are missing, wrong, or missing at source are put right by a filter, by keys and by a range."""
    found = result(executed[1])
    assert found == {"equal": True, "damaged": 881, "left": 0, "deleted": 3}


def test_inside_a_window(executed: list[NotebookNode]) -> None:
    """Three of eight orders change inside the window: their READs are superseded, five land, and one order is new."""
    found = result(executed[2])
    assert found == {"equal": True, "landed": 5, "dropped": 3, "reads": [101, 104, 105, 106, 108]}


def test_from_a_debezium_configuration(executed: list[NotebookNode]) -> None:
    """A connector's file as it is: what has no effect is named, the first load and a snapshot under changes land, older
    versions of the table are read, and it is equal."""
    found = result(executed[3])
    assert (found["equal"], found["named"]) == (True, 4)
    assert found["landed"] + found["superseded"] > 4_000
    assert found["superseded"] > 0
    assert found["versions"] >= 2
