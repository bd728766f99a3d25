"""Findings for a person, and for a program.

Lines are broken between words alone, so that a name or an option is whole, however long it is, and can be searched for.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from snapshotter.doctor.finding import Finding, Severity, counts, worst
from snapshotter.errors import EXIT_DEFINITE, EXIT_OK, EXIT_WARNINGS

_INDENT = 10
_CODES = {Severity.WARNING: EXIT_WARNINGS, Severity.ERROR: EXIT_DEFINITE}


def exit_code(findings: Sequence[Finding]) -> int:
    """By the worst of them: 0 where nothing is wrong (notes are no fault), 1 with warnings, 3 with errors, as for a
    start that would fail again."""
    return _CODES.get(worst(findings), EXIT_OK)


def lines(findings: Sequence[Finding], width: int) -> Iterator[tuple[str, Severity | None]]:
    """By area, in lines of this ``width`` where words allow it, each with the severity of what it is about; None for a
    heading. ``findings`` come in order."""
    for area, some in groupby(findings, lambda one: one.area):
        yield area.value, None
        for one in some:
            begin = f"  {one.severity.value:<{_INDENT - 2}}"
            for line in _wrapped(f"{one.subject}: {one.what}", begin, width):
                yield line, one.severity
            if one.remedy:
                for line in _wrapped(f"→ {one.remedy}", " " * _INDENT, width):
                    yield line, one.severity


def _wrapped(text: str, begin: str, width: int) -> list[str]:
    after = " " * _INDENT
    return textwrap.wrap(
        text,
        width,
        initial_indent=begin,
        subsequent_indent=after,
        break_long_words=False,
        break_on_hyphens=False,
    )


def ending(findings: Sequence[Finding]) -> str:
    """How many there are of each kind."""
    found = counts(findings)
    parts = [_counted(found[kind.value], kind) for kind in reversed(Severity) if kind is not Severity.OK]
    return f"{', '.join(parts)}; {found[Severity.OK.value]} fine"


def _counted(count: int, kind: Severity) -> str:
    return f"{count} {kind.value}{'' if count == 1 else 's'}"


def next_command(findings: Sequence[Finding], file: str) -> str:
    """What to enter next, for the configuration in ``file``."""
    if worst(findings) is Severity.ERROR:
        return f"snapshotter doctor -c {file}"
    return f"snapshotter run -c {file}"


def as_json(findings: Sequence[Finding], file: str) -> dict[str, Any]:
    """All of it for a program: as `lines`, `ending` and `next_command` have it for the configuration in ``file``."""
    return {
        "exit_code": exit_code(findings),
        "counts": counts(findings),
        "findings": [one.to_json() for one in findings],
        "next": next_command(findings, file),
    }
