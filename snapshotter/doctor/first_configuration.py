"""The configuration that ``snapshotter init`` writes: the options that were chosen, each with the line that the
catalogue has of it, and some that many want next, as comments.

The options were checked as a whole before: whoever gets a file gets one that ``snapshotter config`` accepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from snapshotter.configuration.options import catalogue

SUFFIXES = (".toml", ".properties", ".json")
_PRIVATE, _USUAL = 0o600, 0o666
_SIGNS = re.compile(r"[\\.^$*+?{}\[\]|(),]")
_NEXT = {
    "signal.data.collection": "DATABASE.signals",
    "capture.mode.full.update.type": "post_image",
    "notification.enabled.channels": "log,delta",
    "delta.deletes.mode": "soft",
    "engine.http.port": "8585",
    "metrics.port": "9404",
    "engine.auto.restart.enabled": "true",
}
"""What many want next, with values that show what one looks like."""


def entry(text: str, names: Sequence[str]) -> str:
    """What somebody wrote for a collection, as an entry of an include list: one of the ``names`` means that collection
    alone, and anything else is a regular expression."""
    return _SIGNS.sub(lambda sign: "\\" + sign[0], text) if text in names else text


def text_of(options: Mapping[str, str], suffix: str) -> str:
    """The file's text, in the form of this ``suffix``. JSON has no comments, so there it is the options alone."""
    if suffix == ".json":
        return json.dumps(dict(options), indent=2, ensure_ascii=False) + "\n"
    line = _LINES[suffix]
    return "\n".join([*_commented(options, line), ""])


def _commented(options: Mapping[str, str], line: Callable[[str, str], str]) -> Iterator[str]:
    yield "# Written by snapshotter init. Every option there is: snapshotter config --options"
    for name, value in options.items():
        yield from ("", f"# {catalogue()[name].doc}", line(name, value))
    yield from ("", "# What many set next:")
    for name, value in _NEXT.items():
        if name not in options:
            yield from ("", f"# {catalogue()[name].doc}", f"#{line(name, value)}")


def _toml(name: str, value: str) -> str:
    return f"{json.dumps(name)} = {json.dumps(value, ensure_ascii=False)}"


def _property(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\")
    return f"{name} = {escaped}"


_LINES: Mapping[str, Callable[[str, str], str]] = {".toml": _toml, ".properties": _property}


def write(path: Path, text: str, *, replace: bool, private: bool) -> None:
    """Write the ``text`` to the file ``path``: never over one that is there, unless it is to ``replace`` that;
    ``private``: for its owner's eyes alone, since it holds a password. Raises OSError."""
    path.touch(mode=_PRIVATE if private else _USUAL, exist_ok=replace)
    if private:
        path.chmod(_PRIVATE)
    path.write_text(text, encoding="utf-8")
