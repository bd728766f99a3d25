"""``snapshotter doctor``: what is to be said of a configuration and of the place that it is for."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from snapshotter.cli.common import AsJson, ConfigFile, load_settings, set_up_quietly

if TYPE_CHECKING:
    from rich.console import Console

    from snapshotter.doctor.finding import Finding

WIDTH_MAX = 120
_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}


def doctor(ctx: typer.Context, config: ConfigFile, as_json: AsJson = False) -> None:
    """Look at all that may keep an engine from its work, and say what to do. Exit 0: fine, or notes, 1: warnings, 3:
    errors."""
    set_up_quietly(ctx)
    settings = load_settings(config, warn=False)
    from snapshotter.doctor import report
    from snapshotter.doctor.examination import examine

    findings = examine(settings)
    if as_json:
        typer.echo(
            json.dumps(report.as_json(findings, shlex.quote(str(config))), indent=2, ensure_ascii=False)
        )
    else:
        show(findings, str(config))
    raise typer.Exit(report.exit_code(findings))


def show(findings: Sequence[Finding], file: str, console: Console | None = None) -> None:
    """Print findings, how many there are, and what to enter next for the configuration in ``file``: to standard output,
    unless another ``console`` is given."""
    from rich.console import Console
    from rich.text import Text

    from snapshotter.doctor import report

    console = console or Console(file=sys.stdout, highlight=False)
    for line, severity in report.lines(findings, min(console.width, WIDTH_MAX)):
        text = Text(line, style="bold" if severity is None else "")
        if severity is not None:
            text.highlight_words([f"  {severity.value} "], _STYLES[severity.value])
        console.print(text, soft_wrap=True)
    console.print(Text(report.ending(findings)), soft_wrap=True)
    console.print(Text(f"next: {report.next_command(findings, shlex.quote(file))}"), soft_wrap=True)
