"""The rules of form that no linter knows. Each failure names the place and what to do."""

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPED = {"build", "dist", "spark-warehouse", "metastore_db", "__pycache__"}
TEXTS = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".cfg",
    ".sh",
    ".java",
    ".xml",
    ".json",
    ".yml",
    ".yaml",
    ".properties",
    "",
}
FILE_LINES = 450
FUNCTION_LINES = 60
# Written in pieces, so that this file does not break its own rules.
LATER = re.compile(r"\b(" + "FIX" + "ME|TO" + "DO|X" + r"XX)\b")
SHARED = re.compile(r"setattr\(\w+\.(os|random|socket|subprocess|threading|time|uuid), ")
MACHINE = re.compile(r"(?<![\w.:/])/(" + "home/|Users/|root/|work/" + r")\w")


def is_skipped(folder: str) -> bool:
    """Hidden folders are tools' own (caches, the environment, git's)."""
    return folder in SKIPPED or folder.startswith(".") or folder.endswith(".egg-info")


@cache
def files() -> tuple[Path, ...]:
    """The project's text files: no caches, nothing built, nothing installed."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not is_skipped(name)]
        texts = (name for name in names if Path(name).suffix in TEXTS)
        found += [Path(folder) / name for name in texts if name != ".git"]  # git's own, in a worktree
    return tuple(sorted(found))


def python_files() -> Iterator[tuple[Path, ast.Module]]:
    for path in files():
        if path.suffix == ".py":
            yield path, ast.parse(path.read_text())


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def report(broken: list[str], fix: str) -> None:
    assert not broken, f"{fix}:\n  " + "\n  ".join(broken)


def test_files_are_short() -> None:
    """A Python file has at most 450 lines: what belongs together stands together."""
    lengths = {path: len(path.read_text().splitlines()) for path in files() if path.suffix == ".py"}
    long = [f"{place(path, count)}: {count} lines" for path, count in lengths.items() if count > FILE_LINES]
    report(long, f"split these files by what they own (limit {FILE_LINES} lines)")


def test_functions_are_short() -> None:
    """A function has at most 60 lines."""
    long = [
        f"{place(path, function.lineno)}: {function.name} has {length} lines"
        for path, tree in python_files()
        for function in functions(tree)
        if (length := (function.end_lineno or function.lineno) - function.lineno + 1) > FUNCTION_LINES
    ]
    report(long, f"give the steps of these functions names of their own (limit {FUNCTION_LINES} lines)")


def test_nothing_is_left_for_later() -> None:
    """No marks of unfinished work: it is done, or it is an issue."""
    marks = [
        f"{place(path, number)}: {line.strip()[:80]}"
        for path in files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if LATER.search(line)
    ]
    report(marks, "do it now, or open an issue and remove the mark")


def test_no_stand_in_is_put_into_a_module_of_all() -> None:
    """Into `time` itself, say: the threads of drivers, which earlier tests have left running, would go by it too."""
    shared = [
        f"{place(path, number)}: {line.strip()}"
        for path in files()
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if SHARED.search(line)
    ]
    report(
        shared,
        "give the module under test a stand-in of its own: setattr(module, 'time', SimpleNamespace(...))",
    )


def test_every_test_says_what_it_shows() -> None:
    """Each test function has a docstring that states the behaviour."""
    silent = [
        f"{place(path, function.lineno)}: {function.name}"
        for path, tree in python_files()
        if path.name.startswith("test_")
        for function in functions(tree)
        if function.name.startswith("test") and not ast.get_docstring(function)
    ]
    report(silent, "say in a docstring which behaviour the test shows")


def test_every_module_says_what_it_owns() -> None:
    """Each module has a docstring, unless it is an empty `__init__`."""
    silent = [place(path, 1) for path, tree in python_files() if tree.body and not ast.get_docstring(tree)]
    report(silent, "say in a docstring what the module owns, and why this way")


def test_no_machine_is_named() -> None:
    """No path of somebody's own machine."""
    named = [
        f"{place(path, number)}: {line.strip()[:80]}"
        for path in files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE.search(line)
    ]
    report(named, "make the path relative, or take it from the environment")


def test_a_page_has_one_title() -> None:
    """Each Markdown page starts with its only first-level heading."""
    wrong = []
    for path in files():
        if path.suffix != ".md":
            continue
        without_code = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        titles = re.findall(r"^# .+", without_code, flags=re.MULTILINE)
        if len(titles) != 1 or not without_code.lstrip().startswith("# "):
            wrong.append(f"{place(path, 1)}: {len(titles)} titles")
    report(wrong, "start the page with one '# ' title, and use '## ' below")


def test_relative_links_lead_somewhere() -> None:
    """A link from one page to a file of the project finds it."""
    broken = [
        f"{place(path, 1)}: {target}"
        for path in files()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text())
        if "://" not in target and not (path.parent / target).exists()
    ]
    report(broken, "correct the link, or write the page")
