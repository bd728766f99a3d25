"""The sources of the three packages, for tests that read them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("signals", "streaming", "snapshotter")


def _modules() -> dict[str, Path]:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


MODULES = _modules()
"""Every module by its dotted name; a package stands for its ``__init__``."""
