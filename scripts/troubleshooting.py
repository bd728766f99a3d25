"""The page of all that goes wrong, ``docs/troubleshooting.md``: made from the code, so that it says what is said.

``make troubleshooting`` writes it, and a test finds a page that is not what the code makes. First every condition
(`snapshotter.failure_classes`): what has happened, how it is recognised (`snapshotter.diagnosis`), what to do. Then
every message (`scripts.messages`), by what somebody was doing, with the condition and the exit code that
`snapshotter.errors` gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scripts.messages import OPEN, PACKAGES, Message, messages
from snapshotter import diagnosis
from snapshotter.configuration.options_page import _escaped
from snapshotter.diagnosis import Diagnosis
from snapshotter.engine.auto_restart import may_restart
from snapshotter.errors import ConfigurationError, GaveUp, Problem, SnapshotterError, _code_of, describe
from snapshotter.failure_classes import CONDITIONS, UNEXPECTED, Condition, FailureClass
from snapshotter.failures import Fault
from streaming.mongo import server_codes

_INTRODUCTION = f"""\
# Troubleshooting

Every message that says what is wrong, with its cause and what to do. This page is made from the code by
`make troubleshooting`.

A command that fails ends with these lines: `error:` what has happened, `class:` what kind of thing that is, with its
condition in brackets, `next:` what to do, `log:` where the rest is. `snapshotter status -c FILE` says the same of an
engine. Look for the condition [below](#conditions), or search this page for words of the [message](#messages): `{OPEN}`
stands for what only that moment knows. What an engine does about it by itself is in [failures.md](failures.md), the way
out step by step in [recovery.md](recovery.md). `snapshotter doctor -c FILE` looks for all of it at once
([doctor.md](doctor.md)).

## Conditions
"""
_PASSED_ON = "passed on"
_MESSAGES = f"""\
## Messages

By what somebody was doing. The second column has the condition and the exit code; *{_PASSED_ON}*: said within the
message of whoever has asked, or raised to the program that did. Where the third one is empty, the message itself says
what to do, or its condition does.
"""

_CLASSES = {
    FailureClass.CONNECTION: "somebody at the other end of a network does not answer",
    FailureClass.PERMISSION: "the other end answers, and refuses",
    FailureClass.SCHEMA: "documents or rows do not fit",
    FailureClass.RESOURCE: "disk, memory, executors, limits",
    FailureClass.POSITION_LOST: "the oplog no longer holds the position",
    FailureClass.CONFIGURATION: "an option, an argument, a signal, or what is set up around the engine",
    FailureClass.SINK: "tables, their storage, or topics",
    FailureClass.INTERNAL: "a defect, or what nobody has foreseen",
}


@dataclass(frozen=True, slots=True)
class Area:
    """What somebody was doing; ``modules`` are the beginnings of the names of those that say something then."""

    title: str
    introduction: str
    modules: str

    def has(self, message: Message) -> bool:
        return message.module.startswith(tuple(self.modules.split()))


_FINDINGS = Area(
    "What doctor finds",
    "`snapshotter doctor -c FILE` says these, each with its remedy. What is fine is left out here.",
    "snapshotter.doctor",
)
_WARNINGS = Area(
    "Warnings in the log",
    "The engine goes on. What it is about stands behind the words, by name.",
    "",
)
_DEFECTS = Area("What nobody should see", "Report it with the error in full, as the log file has it.", "s")
_AREAS = (
    _FINDINGS,
    Area(
        "A configuration",
        "Nothing is started: correct the option, or the file, and check it by `snapshotter config -c FILE`, which says "
        "all that is wrong with it at once.",
        "snapshotter.configuration streaming.scope streaming.fields streaming.source.change_options "
        "streaming.source.user_stages snapshotter.reading.name_checks signals.channels.kafka_options",
    ),
    Area(
        "A signal, or a request",
        "Nothing is read for it, and its sender is told: correct the signal, and send it again under a new id.",
        "signals snapshotter.intake snapshotter.reading.catalogue snapshotter.reading.document_bounds "
        "snapshotter.cli.signal_commands snapshotter.reporting.answers",
    ),
    Area(
        "A start, and what is around an engine",
        "An engine that is refused at its start has touched nothing.",
        "snapshotter.engine.preflight snapshotter.engine.connecting snapshotter.engine.privileges "
        "snapshotter.engine.session snapshotter.engine.starting snapshotter.engine.engine_runner "
        "snapshotter.engine.guardrail snapshotter.engine.first_load snapshotter.engine.topics snapshotter.state "
        "snapshotter.log_file snapshotter.spark snapshotter.worker snapshotter.metrics snapshotter.page "
        "snapshotter.reporting snapshotter.outbox",
    ),
    Area(
        "MongoDB, the stream, and the position",
        "",
        "streaming.mongo streaming.source streaming.positions snapshotter.engine snapshotter.position "
        "snapshotter.cli.position",
    ),
    Area(
        "Documents and their ids",
        "",
        "streaming.bson streaming.decode streaming.keys streaming.canonical streaming.events snapshotter.reading",
    ),
    Area("Tables", "", "streaming.delta streaming.layouts snapshotter.landing snapshotter.verification"),
    Area("Commands, and Python", "", "snapshotter.cli snapshotter.api snapshotter.client snapshotter.table"),
    _WARNINGS,
    _DEFECTS,
)
"""A message belongs to the first one that has it."""
_READERS = Area(
    "those who read what people have written",
    "a ValueError of theirs is said within the message of whoever has asked; one of any other module is a defect",
    "signals snapshotter.configuration snapshotter.position snapshotter.cli streaming.scope streaming.fields "
    "streaming.source streaming.namespaces streaming.delta.table_paths streaming.delta.further_values",
)


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([_INTRODUCTION, *_conditions(), *_messages()]).rstrip() + "\n"


def _conditions() -> Iterator[str]:
    for kind in FailureClass:
        yield f"**{kind}**: {_CLASSES[kind]}.\n"
        for condition in CONDITIONS.values():
            if condition.failure is kind:
                yield from _condition(condition)


def _condition(condition: Condition) -> Iterator[str]:
    yield f"### {condition.name}\n"
    yield f"{_escaped(condition.cause[0].upper() + condition.cause[1:])}.\n"
    yield f"- **Next**: {_escaped(condition.next_step)}."
    passing, definite = Diagnosis(condition, Fault.ENVIRONMENT), Diagnosis(condition, Fault.DEFINITE)
    first, second = (_code_of(Exception(), one) for one in (passing, definite))
    codes = str(first) if first == second else f"{first} where it may pass, else {second}"
    restarts = "restarts an engine" + ("" if may_restart(definite) else " where it may pass")
    restarts = restarts if may_restart(passing) else "never restarts an engine"
    yield f"- **Exit code** {codes}; `engine.auto.restart.enabled` {restarts}."
    if seen := _seen_as(condition.name):
        yield f"- **Seen as** {seen}."
    yield ""


def _seen_as(name: str) -> str:
    """What an error is recognised by: classes, words, codes of the server's."""
    tables = {**diagnosis._GENERAL_CLASSES, **diagnosis._TELLING_CLASSES}
    classes = sorted(kind for kind, condition in tables.items() if condition == name)
    words = [
        part
        for pattern, condition in diagnosis._WORDS
        if condition == name
        for part in _parts(pattern.pattern)
    ]
    codes = [
        str(code)
        for code, kind in sorted(server_codes.CODES.items())
        if diagnosis._AT_SOURCE.get(kind) == name
    ]
    found = [f"`{kind}`" for kind in classes] + [f"“{_escaped(part)}”" for part in words]
    found += [f"MongoDB's {'codes' if codes[1:] else 'code'} {', '.join(codes)}"] if codes else []
    return ", ".join(found)


def _parts(pattern: str) -> list[str]:
    """What a pattern may find, as somebody reads it: its alternatives spelled out, ``…`` for anything."""
    plain = re.sub(r"\(\?[imx]+\)|\\b", "", pattern)
    plain = re.sub(r"\.\*|\\[Sdw]\+|\\w\*|\.\{[\d,]+\}|\[A-Z\]", OPEN, plain).replace("\\", "")
    plain = re.sub(r"\[ _\]\?|:? \?", " ", plain)
    return list(dict.fromkeys(_spelled_out(plain)))


def _spelled_out(text: str) -> Iterator[str]:
    group = re.search(r"\((?:\?\w*:)?([^()]*)\)(\??)", text)
    if group is None:
        yield from text.split("|")
        return
    for choice in [*group[1].split("|"), *([""] if group[2] else [])]:
        yield from _spelled_out(text[: group.start()] + choice.replace("|", "") + text[group.end() :])


def _messages() -> Iterator[str]:
    placed: dict[str, list[Message]] = {area.title: [] for area in _AREAS}
    for message in messages():
        placed[_area(message).title].append(message)
    yield _MESSAGES
    for area in _AREAS:
        yield f"### {area.title}\n"
        if area.introduction:
            yield f"{area.introduction}\n"
        table = {_FINDINGS: _findings, _WARNINGS: _list}.get(area, _table)
        yield from table(placed[area.title])
        yield ""


def _area(message: Message) -> Area:
    if message.made is UserWarning:
        return _WARNINGS
    return _DEFECTS if _is_defect(message) else next(area for area in _AREAS if area.has(message))


def _is_defect(message: Message) -> bool:
    return message.made.__module__ == "builtins" and not _READERS.has(message)


def _findings(found: Iterable[Message]) -> Iterator[str]:
    yield "| | about | finding | remedy |"
    yield "|---|---|---|---|"
    for one in found:
        if one.severity != "ok":
            about = one.about or "what it names"
            yield f"| {one.severity or 'error or note'} | {_cell(about)} | {_cell(one.text)} | {_cell(one.remedy)} |"


def _list(found: Iterable[Message]) -> Iterator[str]:
    yield from dict.fromkeys(f"- {_cell(one.text)}" for one in found)


def _table(found: Iterable[Message]) -> Iterator[str]:
    yield "| message | what it is | what to do |"
    yield "|---|---|---|"
    for one in found:
        about = one.about or (OPEN if one.made is Problem else "")
        said = f"{_option(about)}: {_cell(one.text)}" if about else _cell(one.text)
        yield f"| {said} | {_what(one)} | {_cell(one.remedy)} |"


def _what(message: Message) -> str:
    """The condition and the exit code of a message that stands for itself."""
    made = message.made
    ours = made.__module__.startswith(PACKAGES)
    if made.__module__ == "builtins" and not _is_defect(message):
        return _PASSED_ON
    if made.__name__ == "Problem" or not issubclass(made, Exception):
        return _linked("wrong-option", ConfigurationError.code)
    if made is GaveUp:
        return f"that of its cause, {GaveUp.code}"
    found = describe(_error(message))
    if ours and found.condition in UNEXPECTED:
        return _PASSED_ON
    return _linked(found.condition, found.exit_code)


def _error(message: Message) -> Exception:
    """As it would be raised. What an error needs besides its text has no part in what it is."""
    try:
        error: Exception = message.made(message.text)
    except TypeError:
        error = message.made.__new__(message.made, message.text)
        error.args = (message.text,)
    if isinstance(error, SnapshotterError):
        error.condition = message.condition or getattr(error, "condition", None)
    return error


def _linked(condition: str, code: int) -> str:
    return f"[{condition}](#{condition}), {code}"


def _option(name: str) -> str:
    return f"`{name}`" if OPEN not in name else _cell(name)


def _cell(text: str) -> str:
    return _escaped(text.strip())


if __name__ == "__main__":
    print(page(), end="")
