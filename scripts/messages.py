"""Every message that says what is wrong, read from the code itself: where an error, a problem of a configuration or a
finding is made, or a warning logged, its text stands.

A *site* is a call that makes one. Its text is what is written there: constants are filled in, the values of a name
within the function are followed, and what only a run knows is ``…``. So nothing is registered anywhere, and a message
cannot be forgotten. A site whose text is made elsewhere (by a function that makes such errors, from a driver's own
error) has none of its own; the one there counts.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PACKAGES = ("signals", "streaming", "snapshotter")
OPEN = "…"
"""What only a run knows."""
_NOT_SAID = ("snapshotter.testing", "snapshotter.demo")
"""Servers for tests and the demo: what they say is said of them."""
_BUILT_IN = {kind.__name__: kind for kind in (ValueError, TypeError, RuntimeError, TimeoutError)}
_NO_ERRORS = ("Problem", "Finding")
"""What is told without being raised."""
_LOGGED = {"_log.warning": ("text",), "_log.error": ("text",), "warn_of": ("log", "text")}
"""What writes a warning into the log, and what it is given."""
_UNSEEN = ("StopRequested", "ExecutionTimeout", "NeedsSpark")
"""Caught by whoever called, always."""
_PARTS = {
    **dict.fromkeys(("message", "why", "what"), "text"),
    **dict.fromkeys(("option", "subject"), "about"),
    "next_step": "remedy",
}
"""What makers call the parts of a message."""
_TEXTS_MAX = 6


@dataclass(frozen=True, slots=True)
class Message:
    """``made`` is the class that says it (`UserWarning`, where it is logged); ``about`` the option of a problem, or the
    subject of a finding; ``remedy`` what it brings as its own next step; ``condition`` the state that it names itself
    in."""

    module: str
    made: type
    text: str
    about: str = ""
    remedy: str = ""
    condition: str = ""
    severity: str = ""


def messages() -> list[Message]:
    """All of them, each once, in the order of the modules and of their lines."""
    found: dict[Message, None] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            if not name.startswith(_NOT_SAID):
                found.update(dict.fromkeys(Source(importlib.import_module(name)).messages()))
    return list(found)


class Source:
    """One module: its tree, and what its names stand for."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.tree = ast.parse(inspect.getsource(module))

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def _within(self, node: ast.AST) -> Iterator[ast.AST]:
        while (above := self._parents.get(node)) is not None:
            yield above
            node = above

    def messages(self) -> Iterator[Message]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (made := self._made(node)) is not None:
                yield from self._of(node, made)

    def _made(self, call: ast.Call) -> type | None:
        """The class that a call makes, if it is one that says what is wrong."""
        name, within = ast.unparse(call.func), ""
        if name in _LOGGED:
            return UserWarning
        if name in ("cls", "super().__init__"):
            above = next((n for n in self._within(call) if isinstance(n, ast.ClassDef)), None)
            within = above.name if above is not None else ""
        made = self._value(within or name)
        if made is None and isinstance(self._parents.get(call), ast.Raise):
            made = _BUILT_IN.get(name)
        if not isinstance(made, type) or made.__name__.startswith("_") or made.__name__ in _UNSEEN:
            return None
        return made if made.__name__ in _NO_ERRORS or issubclass(made, Exception) else None

    def _value(self, name: str) -> object:
        value: object = self.module
        for part in name.split("."):
            value = getattr(value, part, None)
        return value

    def _of(self, call: ast.Call, made: type) -> Iterator[Message]:
        called = ast.unparse(call.func)
        base = made.__mro__[1] if called == "super().__init__" else made
        names = [_PARTS.get(name, name) for name in _LOGGED.get(called) or _parameters(base)]
        given = dict(zip(names, call.args, strict=False))
        if called not in _LOGGED:
            given |= {_PARTS.get(one.arg, one.arg): one.value for one in call.keywords if one.arg}
        if "text" not in given:
            return
        parts = {
            name: self.texts(given[name]) if name in given else []
            for name in ("about", "remedy", "condition")
        }
        single = {
            name: texts[0] if len(texts) == 1 and texts[0] != OPEN else "" for name, texts in parts.items()
        }
        levels = re.findall(r"Severity\.(\w+)", ast.unparse(given["severity"])) if "severity" in given else []
        for text in self.texts(given["text"]):
            if len(re.findall(r"\w{2,}", text)) > 1:
                yield Message(
                    self.module.__name__, made, text, **single, severity=" or ".join(levels).lower()
                )

    def texts(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> list[str]:
        """All texts that an expression may be, as far as they are written down. ``seen`` are names that are being
        followed."""
        match node:
            case ast.Constant(value=str(text)):
                found = [text]
            case ast.JoinedStr(values=parts):
                found = _joined([self.texts(part, seen) for part in parts])
            case ast.FormattedValue(value=value):
                found = self.texts(value, seen)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = _joined([self.texts(left, seen), self.texts(right, seen)])
            case ast.IfExp(body=body, orelse=orelse):
                found = [*self.texts(body, seen), *self.texts(orelse, seen)]
            case ast.BoolOp(values=values):
                found = [text for value in values for text in self.texts(value, seen)]
            case ast.Name(id=name) if name not in seen:
                found = self._named(node, name, seen | {name})
            case ast.Attribute() | ast.Subscript():
                found = self._constant(node)
            case _:
                found = [OPEN]
        return list(dict.fromkeys(_tidy(text) for text in found))[:_TEXTS_MAX]

    def _named(self, node: ast.AST, name: str, seen: frozenset[str]) -> list[str]:
        """What a name stands for: what was assigned to it in this function, or in this module."""
        function = next((n for n in self._within(node) if isinstance(n, ast.FunctionDef)), None)
        found: list[str] = []
        for inner in ast.walk(function) if function else ():
            match inner:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    found += self.texts(value, seen)
                case ast.AugAssign(target=ast.Name(id=target), value=value) if target == name:
                    found = [*found, *_joined([found, self.texts(value, seen)])]
        value = self._value(name)
        return found or [value if isinstance(value, str) else OPEN]

    def _constant(self, node: ast.expr) -> list[str]:
        """A dotted name or an entry of a table, where the module knows it."""
        try:
            value = eval(ast.unparse(node), vars(self.module))
        except Exception:  # noqa: BLE001 - whatever it is: only a run knows it
            return [OPEN]
        return [value if isinstance(value, str) else OPEN]


def _parameters(made: type) -> list[str]:
    """The names of what a class is made of; an error without an ``__init__`` of its own has its text first."""
    if made.__init__ in (Exception.__init__, *(one.__init__ for one in _BUILT_IN.values())):
        return ["text"]
    return list(inspect.signature(made.__init__).parameters)[1:]


def _joined(parts: list[list[str]]) -> list[str]:
    return ["".join(texts) for texts in product(*parts)][:_TEXTS_MAX] if all(parts) else [OPEN]


def _tidy(text: str) -> str:
    return re.sub(rf"{OPEN}(?:\s*{OPEN})+", OPEN, re.sub(r"\s+", " ", text))
