"""The machine takes what the engine gives it, and nothing that only tests do."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

from snapshotter.core.values import inputs

PRODUCT = Path(__file__).parents[2] / "snapshotter"


def made_in(path: Path) -> set[str]:
    """Names that are called in a file: classes that it makes values of are among them."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {
        f.id if isinstance(f, ast.Name) else f.attr for f in calls if isinstance(f, ast.Name | ast.Attribute)
    }


def test_each_input_is_produced_outside_the_core() -> None:
    """An input that nobody produces is a road that only tests drive."""
    files = [path for path in PRODUCT.rglob("*.py") if "core" not in path.relative_to(PRODUCT).parts]
    made = set().union(*map(made_in, files))
    assert {kind.__name__ for kind in get_args(inputs.Input)} - made == set()
