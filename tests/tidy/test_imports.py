"""What the core may import, as a positive list.

The contracts between packages are in `pyproject.toml` (import-linter); a list of what is allowed cannot be
written there.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE_MAY_IMPORT = {
    "snapshotter.core",
    "streaming.keys.keys",
    "streaming.positions",
    "streaming.namespaces",
    "streaming.delta.table_identity",
    "signals.actions",
}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def allowed_in_core(module: str) -> bool:
    if module.split(".")[0] in sys.stdlib_module_names:
        return True  # which of them is import-linter's contract of purity
    return any(module == name or module.startswith(f"{name}.") for name in CORE_MAY_IMPORT)


def test_the_core_imports_only_what_it_may() -> None:
    """`snapshotter.core` needs the standard library, its own modules, and four vocabularies."""
    broken = [
        f"{path.relative_to(ROOT)}:{line}: {module}"
        for path in sorted((ROOT / "snapshotter" / "core").rglob("*.py"))
        for line, module in imports(path)
        if not allowed_in_core(module)
    ]
    assert not broken, "pass what you need into the core as a value, it may not import:\n  " + "\n  ".join(
        broken
    )


def test_importing_a_package_is_cheap() -> None:
    """No package imports Spark at its top: `snapshotter --help` and signals need none."""
    import subprocess

    code = "import signals, streaming, snapshotter, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
