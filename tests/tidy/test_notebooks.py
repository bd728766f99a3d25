"""The notebooks as they are stored: somebody who only reads them sees results and plots, and nobody's machine."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
BYTES_MAX = 200_000
# Written in pieces, so that this file does not break the rule that it is about.
MACHINE = re.compile(
    r"/(?:" + r"tmp|root|home|Users|work|opt|usr|var" + r")/|localhost:\d|(?:\d{1,3}\.){3}\d{1,3}|mongodb://"
)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in cells(path, "code") for output in cell["outputs"]]


def readable(path: Path) -> str:
    """Sources and outputs, without the pictures."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("image/png", None)
    return json.dumps(notebook, ensure_ascii=False)


def test_there_are_four() -> None:
    """A backfill, a repair, a window, and a connector of Debezium's in ten cells."""
    names = ["1_first_backfill", "2_repair_a_table", "3_inside_a_window", "4_from_debezium"]
    assert len(cells(NOTEBOOKS[-1], "code")) == 10
    assert [path.stem for path in NOTEBOOKS] == names


@each_notebook
def test_it_was_run_from_top_to_bottom(path: Path) -> None:
    """Its cells were executed in their order, once, and none failed or complained."""
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert [o for o in outputs(path) if o["output_type"] == "error" or o.get("name") == "stderr"] == []


@each_notebook
def test_it_shows_a_plot_and_stays_small(path: Path) -> None:
    """Outputs are stored with it, a picture among them, and it is no burden to the repository."""
    assert any("image/png" in output.get("data", {}) for output in outputs(path))
    assert path.stat().st_size < BYTES_MAX


@each_notebook
def test_it_names_no_machine(path: Path) -> None:
    """No path and no address of where it was run, in what it says and in what came out."""
    assert MACHINE.findall(readable(path)) == []


@each_notebook
def test_it_explains_itself(path: Path) -> None:
    """It begins with a title, and its cells of code are short enough to be read."""
    assert "".join(cells(path, "markdown")[0]["source"]).startswith("# ")
    long = [cell["id"] for cell in cells(path, "code") if len(cell["source"]) > 30]
    assert long == []
