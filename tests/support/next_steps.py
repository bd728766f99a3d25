"""What messages and pages tell people to do, as values: every option, command, target and package that one names.

Messages are the texts in the code that hold a space and are no docstring, with the constants that stand in them
filled in; what only a run knows stays open (``OPEN``). Pages are the Markdown files. What is found is resolved against
the thing itself: the table of options and its checks, Typer's commands, the Makefile, librdkafka.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

from signals.channels.kafka_options import ELSEWHERE, MEANINGLESS, RENAMED
from snapshotter.cli.app import app
from snapshotter.configuration.options import Status, catalogue, find
from snapshotter.configuration.settings import Settings
from snapshotter.errors import ConfigurationError
from streaming.delta.table_properties import ALLOWED, REFUSED
from streaming.source.change_options import OPTIONS as SOURCE_OPTIONS
from tests.support.sources import PACKAGES, ROOT

OPEN = "\0"
_NAME = r"(?<![\w./:@$-])[a-z][a-z0-9]*(?:\.[a-z*][A-Za-z0-9_*]*)+"
OPTION = re.compile(rf"({_NAME})(?![\w(/\0-])(?:(?:\s?=\s?| to )['\"]?(\w[\w.:-]*(?<![.:]))(?!\0))?")
COMMAND = re.compile(
    r"\bsnapshotter ([a-z]+(?:-[a-z]+)?)((?: -{1,2}[a-z][a-z-]*| [A-Z][A-Z…]*| \0| \[[^\]]*\])*)"
)
FLAG = re.compile(r"(?<![\w-])(--[A-Za-z][\w-]+)")
MAKE = re.compile(r"(?:\A|\brun )make ([a-z-]+)(?= [A-Z]+=|$)", re.MULTILINE)
EXTRA = re.compile(r"snapshotter\[([\w,-]+)\]")
_FILES = (
    "json",
    "jsonl",
    "yaml",
    "toml",
    "txt",
    "py",
    "md",
    "properties",
    "log",
    "lock",
    "html",
    "xml",
    "parquet",
    "css",
    "js",
)
FOREIGN = {
    "storage.oplogMinRetentionHours": "mongod",
    "snapshotter.signal_actions": "entry points",
    "snapshotter.signal_channels": "entry points",
    "database.collection": "a collection's name",
    "database.collection.path": "a field's name",
    "snapshotter.notification_channels": "entry points",
    "snapshotter.snapshot_modes": "entry points",
    **dict.fromkeys({*ALLOWED, *REFUSED}, "a property of Delta's tables"),
    "snapshotter.engine": "a property of tables",
    "snapshotter.reader": "a property of tables",
    "snapshotter.plan": "a property of tables",
    "snapshotter.owner": "a property of tables",
    "snapshotter.namespace": "a property of tables",
    "db.coll": "a collection's name",
    "allowed.paths": "a parameter of providers",
    "allowlist.pattern": "a parameter of providers",
    "debezium.source": "Debezium Server's prefix",
    "spec.config": "a place in a resource of Strimzi",
    "shop.signals": "the demo's signal collection",
    "task.fields": "rich's own template",
    "seconds.increment": "how a cluster time is written",
    "local.oplog.rs": "MongoDB's oplog",
    "offset.dat": "Kafka Connect's file of offsets",
    "print.key": "Kafka's console consumer",
    "java.util": "a package of Java",
}
_PROSE = frozenset({"has", "is"})
"""Names that are no options, and what they are."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text for people, and where it stands."""

    place: str
    text: str


_NOT_READ = {("snapshotter", "testing"), "snapshotter/configuration/options_elsewhere.py"}
"""What configures servers for tests; and a table of names, read as what it says of each."""


@cache
def messages() -> tuple[Said, ...]:
    """The texts of the product's code, and what is said of each option; what became of old names is no advice."""
    options = (o for o in catalogue().values() if o.status is not Status.RENAMED)
    return (*_texts(), *(Said(f"what is said of {o.name}", o.doc) for o in options))


def _texts() -> Iterator[Said]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if relative.parts[:2] in _NOT_READ or str(relative) in _NOT_READ:
                continue
            module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
            yield from texts_of(path.read_text(), str(relative), importlib.import_module(module))


def texts_of(source: str, where: str, module: ModuleType | None = None) -> Iterator[Said]:
    """The texts of one module's source."""
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))  # a docstring, of whatever
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(_piece(part, module) for part in node.values)
        if text and " " in text.strip():
            yield Said(f"{where}:{node.lineno}", text)


def _piece(part: ast.expr, module: ModuleType | None) -> str:
    """A part of an f-string: its text, that of the constant that stands in it, or ``OPEN``."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    value: object = None
    with suppress(AttributeError, ValueError):
        name, *attributes = ast.unparse(part.value).split(".")
        value = getattr(module, name)
        for attribute in attributes:
            value = getattr(value, attribute)
    return str(value) if isinstance(value, str) else OPEN


def pages() -> list[Path]:
    """The Markdown files that somebody reads here."""
    folders = (ROOT, ROOT / "docs", ROOT / "docs" / "decisions", ROOT / "bench", ROOT / "notebooks")
    return sorted(path for folder in folders for path in folder.glob("*.md"))


_CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")


def code_of(page: Path) -> Iterator[tuple[str, Said]]:
    """Each piece of code of a page: ``inline``, or what the fence calls it."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    for block in _CODE.finditer(text):
        yield block[1], Said(f"{name}:{text.count(chr(10), 0, block.start()) + 1}", block[2])
    prose = _CODE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for found in _INLINE.finditer(prose):
        place = f"{name}:{prose.count(chr(10), 0, found.start()) + 1}"
        yield "inline", Said(place, " ".join(found[1].split()))


# What is wrong with it: None where it can be followed


def wrong_option(name: str, value: str | None, place: str, *, advice: bool = True) -> str | None:
    """``advice``: somebody is told to set it; else it may be one that is planned, or means nothing here."""
    if (
        place.startswith(("streaming/source/change_options", "streaming/source/hints"))
        and name in SOURCE_OPTIONS
    ):
        return None  # the answer to whoever gave one of these to the source itself
    if name in FOREIGN or name.rpartition(".")[2] in _FILES:
        return None
    if "kafka" in place and is_kafkas(name):
        return None
    option = find(name) or next((o for n, o in catalogue().items() if n.startswith(f"{name}.")), None)
    if option is None:
        return f"{name} is no option"
    if advice and option.status is Status.PLANNED:
        return f"{name} is not supported yet"
    if value and option.status is Status.SUPPORTED and (why := refusal(name, value)):
        return f"{name}={value}: {why}"
    return None


_SOUND = {
    "name": "tried",
    "mongodb.connection.string": "mongodb://localhost",
    "delta.warehouse": "warehouse",
    "signal.data.collection": "db.signals",
}


@cache
def refusal(name: str, value: str) -> str | None:
    """Why the settings refuse this value for this option; what else is missing then is not its fault."""
    try:
        Settings.from_options({**_SOUND, name: value}, environ={})
    except ConfigurationError as error:
        return next((p.message for p in error.problems if p.option == name), None)
    return None


@cache
def is_kafkas(name: str) -> bool:
    """Whether Kafka's client knows it, by librdkafka's name or by the Java client's, as far as we translate that."""
    from confluent_kafka import KafkaException, Producer

    if name.endswith(".*"):
        return name == "sasl.oauthbearer.*" or any(known.startswith(name[:-1]) for known in _JAVA)
    if name in _JAVA:
        return True
    with pytest.raises(KafkaException) as refused:
        Producer({name: "", "no.such.property": ""})  # so that none is made; the first that is wrong is told
    return f'No such configuration property: "{name}"' not in str(refused.value)


_JAVA = {*RENAMED, *MEANINGLESS, *ELSEWHERE} | {
    *("sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type"),
    *(
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "max.request.size",
        "retention.ms",
    ),
    "poll.timeout.ms",
}


@cache
def commands() -> dict[str, Any]:
    group: Any = get_command(app)
    return dict(group.commands)


@cache
def flags() -> frozenset[str]:
    """Of all commands, of those in groups, and before one."""
    grouped = (
        inner for command in commands().values() for inner in getattr(command, "commands", {}).values()
    )
    everything = (get_command(app), *commands().values(), *grouped)
    return frozenset(
        flag for command in everything for parameter in command.params for flag in parameter.opts
    )


def wrong_command(name: str, rest: str) -> str | None:
    """A command as a text names it: it exists, and has these flags. Names in capitals stand for arguments."""
    if (command := commands().get(name)) is None:
        return f"snapshotter has no command {name}"
    known = {flag for parameter in command.params for flag in parameter.opts} | {"--help"}
    wrong = [flag for flag in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest) if flag not in known]
    return f"snapshotter {name} has no {', '.join(wrong)}" if wrong else None


def wrong_line(line: str) -> str | None:
    """A line of a shell block: parsed as the command line itself parses it, but not carried out."""
    words = shlex.split(line, comments=True)
    if not words or words[0] != "snapshotter":
        return None
    if len(words) < 2 or words[1] not in commands():
        return f"no command: {line}"
    try:
        commands()[words[1]].make_context(words[1], words[2:])
    except Exception as error:
        if not hasattr(error, "format_message"):  # the parser's own errors have it
            raise
        return f"{line}: {error.format_message()}"
    return None


@cache
def targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def extras() -> frozenset[str]:
    return frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


@cache
def modules() -> dict[str, str]:
    """Every module here, by each end of its dotted name: ``core.values.window`` is one of them."""
    found = {}
    for top in (*PACKAGES, "bench", "tests", "notebooks"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found.update({".".join(parts[n:]): ".".join(parts) for n in range(len(parts))})
    return found


def is_code(name: str) -> bool:
    """Whether a dotted name is a module of ours, or something that one defines."""
    module, _, attribute = name.rpartition(".")
    if name in modules() or not (path := modules().get(module)):
        return name in modules()
    file = ROOT / f"{path.replace('.', '/')}.py"
    return file.exists() and re.search(rf"\b(def|class) {attribute}\b", file.read_text()) is not None


def broken_in(said: Said) -> Iterator[str]:
    """What one text says that cannot be followed, with its place."""
    on_a_page = ".md:" in said.place
    for found in OPTION.finditer(said.text):
        if not (on_a_page and is_known_on_pages(found[1])):
            yield from _at(said, wrong_option(found[1], found[2], said.place, advice=not on_a_page))
    for found in COMMAND.finditer(said.text):
        if found[1] not in _PROSE:
            yield from _at(said, wrong_command(found[1], found[2]))
    known = flags() | {"--replSet"} | (flags_of_tools() if on_a_page else set())
    for flag in FLAG.findall(COMMAND.sub(" ", said.text)):
        yield from _at(said, None if flag in known else f"no command has {flag}")
    for target in MAKE.findall(said.text):
        yield from _at(said, None if target in targets() else f"the Makefile has no target {target}")
    for extra in ",".join(EXTRA.findall(said.text)).split(","):
        yield from _at(said, None if not extra or extra in extras() else f"there is no extra {extra}")


def _at(said: Said, why: str | None) -> Iterator[str]:
    return iter([f"{said.place}: {why}"] if why else [])


def is_known_on_pages(name: str) -> bool:
    """Pages also name modules, what Kafka's clients call things, the shop's collections, and the ends of options."""
    ends = any(option.endswith(f".{name}") for option in catalogue())
    return ends or is_code(name) or name.startswith("shop.") or is_kafkas(name)


@cache
def flags_of_tools() -> frozenset[str]:
    """Of the tests and the benchmarks."""
    files = (ROOT / "tests" / "conftest.py", *(ROOT / "bench").rglob("*.py"))
    added = re.compile(r'add_?(?:argument|option)\(\s*"(--[a-z-]+)"')
    return frozenset(flag for file in files for flag in added.findall(file.read_text()))
