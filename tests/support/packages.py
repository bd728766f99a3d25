"""Packages with entry points, installed as pip would leave them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    code: str,
    group: str,
    points: Mapping[str, str],
    more: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """A package of one ``module``. ``points``: names in the ``group``, and what of the module they lead to; ``more``:
    those of other groups."""
    (folder / f"{module}.py").write_text(code)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    name = module.replace("_", "-")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    text = ""
    for name, named in {group: points, **(more or {})}.items():
        text += f"[{name}]\n" + "".join(f"{point} = {module}:{target}\n" for point, target in named.items())
    (about / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
