"""References in values, ``${provider:path:key}``, and what they stand for: Kafka Connect's configuration providers.

Known without being declared, by Kafka's usual names and by those that Strimzi gives them:

    ${file:PATH:KEY}  a key of a properties file      FileConfigProvider       file, strimzifile
    ${dir:PATH:KEY}   the content of a file there     DirectoryConfigProvider  dir, directory, strimzidir
    ${env:NAME}       an environment variable         EnvVarConfigProvider     env, strimzienv

``config.providers``, with ``config.providers.X.class`` and ``.param.*``, gives them further names, and says what they
may read. In a file of Debezium Server ``${NAME}`` and ``${NAME:default}`` are references too, to the environment or to
a property of that file, and ``$${`` stands for ``${``, as Quarkus has it.

A reference is replaced once: what it stands for is not looked into again. One that stands for nothing is a problem,
where Kafka Connect would take it for the value itself. What a provider gives is not shown by any message: the reference
is, in its place (`Drawn`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from snapshotter.configuration.config_files import DEBEZIUM_SERVER_PREFIX, property_pairs
from snapshotter.errors import Problem

PROVIDERS = "config.providers"
_REFERENCE = re.compile(r"\$\{(?P<provider>[\w.-]+):(?:(?P<path>[^}:]*):)?(?P<key>[^}]*)\}")
_EXPRESSION = re.compile(r"(?P<escape>\$?)\$\{(?P<name>[\w.\"-]+)(?::(?P<default>[^}]*))?\}")
_ALLOWED = "allowed.paths"
_PATTERN = "allowlist.pattern"
_ELSEWHERE = (
    "mount the secret as files, and refer to them by ${dir:PATH:KEY} or ${file:PATH:KEY}, or use ${env:NAME}"
)
_SHORT = 3


class Unresolved(Exception):
    """Why a reference stands for nothing. The message names path and key, never what was read."""


class Provider(Protocol):
    """Where values come from; ``secret``: whether what it gives was kept out of sight on purpose."""

    secret: bool

    def get(self, path: str, key: str) -> str:
        """What stands at ``key`` in ``path``. Raises Unresolved."""


@dataclass(slots=True)
class Environment:
    """EnvVarConfigProvider: ``allowed`` is what the name of a variable has to match as a whole."""

    environ: Mapping[str, str] = field(repr=False)
    allowed: re.Pattern[str] | None = None
    secret = False

    def get(self, path: str, key: str) -> str:
        if path:
            raise Unresolved(f"an environment variable has no path, and here it is {path!r}")
        if self.allowed is not None and not self.allowed.fullmatch(key):
            raise Unresolved(f"the variable {key} may not be read: {_PATTERN} is {self.allowed.pattern}")
        if key not in self.environ:
            raise Unresolved(f"the environment variable {key} is not set")
        return self.environ[key]


@dataclass(slots=True)
class Files:
    """FileConfigProvider: files of Java's properties, each read once. ``allowed``: folders that they must lie in."""

    allowed: tuple[Path, ...] | None = None
    secret = True
    _read: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def get(self, path: str, key: str) -> str:
        if path not in self._read:
            file = _within(self.allowed, path)
            try:
                self._read[path] = dict(property_pairs(_text_of(file)))
            except ValueError as error:
                raise Unresolved(f"{path} is no file of properties: {error}") from None
        if key not in self._read[path]:
            raise Unresolved(f"the file {path} has no key {key!r}")
        return self._read[path][key]


@dataclass(slots=True)
class Directory:
    """DirectoryConfigProvider: the whole content of a regular file, as it is. ``allowed`` as in `Files`."""

    allowed: tuple[Path, ...] | None = None
    secret = True

    def get(self, path: str, key: str) -> str:
        folder = _within(self.allowed, path)
        if not folder.is_dir():
            raise Unresolved(f"{path} is no directory")
        file = folder / key
        if not key or Path(key).name != key or not file.is_file():
            raise Unresolved(f"the directory {path} has no file {key!r}")
        return _text_of(file)


CLASSES = {
    "FileConfigProvider": Files,
    "DirectoryConfigProvider": Directory,
    "EnvVarConfigProvider": Environment,
}
_NAMES: Mapping[str, type] = {
    **dict.fromkeys(("file", "strimzifile"), Files),
    **dict.fromkeys(("dir", "directory", "strimzidir"), Directory),
    **dict.fromkeys(("env", "strimzienv"), Environment),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """An option's value that references are part of: as it is ``written``, and what each of them stands for (``parts``,
    by what was replaced). ``secret``: some of that was read from a file."""

    written: str
    parts: Mapping[str, str] = field(repr=False)
    secret: bool


@dataclass(slots=True)
class Resolved:
    """Values with their references replaced; ``drawn`` says which those are. Problems and warnings show no values."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    drawn: dict[str, Drawn] = field(default_factory=dict)

    def told(self, problem: Problem) -> Problem:
        """The problem without anything that a provider gave."""
        own, message = self.drawn.get(problem.option), self.hidden(problem.message)
        if own is None:
            value = None if problem.value is None else self.hidden(problem.value)
            return Problem(problem.option, message, value)
        message = _replaced(message, own.parts, 1)
        if _shows(message, own.parts):
            message = "is not what this option takes; to say more would show it"
        return Problem(problem.option, message, None if problem.value is None else own.written)

    def hidden(self, text: str) -> str:
        """``text`` with references in the place of what they stand for, unless that is very short."""
        for drawn in self.drawn.values():
            text = _replaced(text, drawn.parts, _SHORT)
        return text


def resolve(values: Mapping[str, str], environ: Mapping[str, str], *, expressions: bool = False) -> Resolved:
    """All ``values`` with what their references stand for. ``environ``: the environment's variables. ``expressions``:
    whether the values are Debezium Server's, with ``${NAME}`` and ``$${``."""
    resolved = Resolved()
    scanner = _Scanner(values, environ, _declared(values, environ, resolved), resolved.problems)
    for name, written in values.items():
        if name == PROVIDERS or name.startswith(f"{PROVIDERS}."):
            resolved.values[name] = written
            continue
        found = _Found(name)
        pattern, replace = (
            (_EXPRESSION, scanner.expression) if expressions else (_REFERENCE, scanner.reference)
        )
        text = pattern.sub(partial(replace, found), written)
        resolved.values[name] = text
        if found.parts:
            resolved.drawn[name] = Drawn(written, found.parts, found.secret)
    return resolved


@dataclass(slots=True)
class _Found:
    """What was found for the references of one option."""

    option: str
    parts: dict[str, str] = field(default_factory=dict)
    secret: bool = False

    def note(self, reference: str, content: str, *, secret: bool) -> str:
        self.parts[reference] = content
        self.secret = self.secret or secret
        return content


@dataclass(slots=True)
class _Scanner:
    """Looks up references; what stands for nothing is left as it is written, and is a problem. ``providers`` are those
    there are, and of classes that are not carried out here, the class."""

    values: Mapping[str, str]
    environ: Mapping[str, str]
    providers: Mapping[str, Provider | str]
    problems: list[Problem]

    def reference(self, found: _Found, match: re.Match[str]) -> str:
        """Of a provider."""
        return self._provided(match[0], match["provider"], (match["path"] or "", match["key"]), found)

    def expression(self, found: _Found, match: re.Match[str]) -> str:
        """Of a provider, of a property or of the environment."""
        name, default = match["name"], match["default"]
        plain = match[0].removeprefix("$") if match["escape"] else match[0]
        if default is not None and name in self.providers:
            path, colon, key = default.partition(":")
            return self._provided(plain, name, (path, key) if colon else ("", path), found)
        if match["escape"]:
            return plain
        try:
            return found.note(plain, self._named(name, default), secret=False)
        except Unresolved as error:
            self.problems.append(Problem(found.option, f"{plain} stands for nothing: {error}"))
            return match[0]

    def _named(self, name: str, default: str | None) -> str:
        """What an expression stands for. Raises Unresolved."""
        if "${" in (default or ""):
            raise Unresolved("its default has a reference of its own; write it out")
        variable = re.sub(r"[^A-Za-z0-9]", "_", name)
        for known in (name, variable, variable.upper()):
            if known in self.environ:
                return self.environ[known]
        text = self.values.get(name.removeprefix(DEBEZIUM_SERVER_PREFIX), default)
        if text is None:
            raise Unresolved(
                f"neither is the environment variable {variable.upper()} set, nor is there a property {name}"
            )
        if "${" in text:
            raise Unresolved(f"the property {name} has a reference of its own; write it out")
        return text

    def _provided(self, reference: str, name: str, place: tuple[str, str], found: _Found) -> str:
        provider = self.providers.get(name)
        if provider is None or isinstance(provider, str):
            known = ", ".join(sorted(n for n, p in self.providers.items() if not isinstance(p, str)))
            why = f"{name} is the class {provider}" if provider else f"there is no provider {name}"
            what = f"{reference} stands for nothing: {why}, and there are {known}; {_ELSEWHERE}"
            self.problems.append(Problem(found.option, what))
            return reference
        try:
            return found.note(reference, provider.get(*place), secret=provider.secret)
        except Unresolved as error:
            self.problems.append(Problem(found.option, f"{reference} stands for nothing: {error}"))
            return reference


def _declared(
    values: Mapping[str, str], environ: Mapping[str, str], resolved: Resolved
) -> dict[str, Provider | str]:
    """The providers that there are, those without a declaration first."""
    found: dict[str, Provider | str] = {name: _made(kind, environ) for name, kind in _NAMES.items()}
    names = [name.strip() for name in values.get(PROVIDERS, "").split(",") if name.strip()]
    for name in names:
        option = f"{PROVIDERS}.{name}.class"
        given = values.get(option, "").strip()
        kind = CLASSES.get(given.rpartition(".")[2]) if given else _NAMES.get(name)
        if not given and kind is None:
            resolved.problems.append(Problem(option, f"is required: {PROVIDERS} names {name}"))
        elif kind is None:
            found[name] = given
            resolved.warnings.append(
                f"{option} = {given}: not carried out here; known are {', '.join(CLASSES)}"
            )
        else:
            found[name] = _configured(name, kind, values, environ, resolved)
    for option in values:
        alias = option.removeprefix(f"{PROVIDERS}.").partition(".")[0]
        if option.startswith(f"{PROVIDERS}.") and alias not in names:
            resolved.warnings.append(f"{option} has no effect: {PROVIDERS} does not name {alias}")
    return found


def _made(kind: type, environ: Mapping[str, str]) -> Provider:
    return Environment(environ) if kind is Environment else kind()


def _configured(
    name: str, kind: type, values: Mapping[str, str], environ: Mapping[str, str], resolved: Resolved
) -> Provider:
    """A provider with its parameters. Where one is wrong, that is a problem, and the provider reads nothing by it."""
    provider = _made(kind, environ)
    start = f"{PROVIDERS}.{name}.param."
    for option, text in values.items():
        parameter = option.removeprefix(start)
        if parameter == option:
            continue
        if isinstance(provider, Environment) and parameter == _PATTERN:
            try:
                provider.allowed = re.compile(text)
            except re.error as error:
                resolved.problems.append(Problem(option, f"is no regular expression: {error}", text))
        elif isinstance(provider, Files | Directory) and parameter == _ALLOWED:
            folders = [Path(part.strip()) for part in text.split(",") if part.strip()]
            for folder in folders:
                if not folder.is_absolute() or not folder.exists():
                    message = f"must be folders by their absolute paths, and {folder} is none"
                    resolved.problems.append(Problem(option, message, text))
            provider.allowed = tuple(map(_normal, folders)) if folders else None
        else:
            takes = _PATTERN if isinstance(provider, Environment) else _ALLOWED
            resolved.warnings.append(f"{option} has no effect: {kind.__name__} takes {takes}")
    return provider


def _normal(path: Path) -> Path:
    """Without ``..``; links are not followed, or a secret that is mounted by one would lie elsewhere."""
    return Path(os.path.normpath(path))


def _within(allowed: tuple[Path, ...] | None, path: str) -> Path:
    """The path, which has to lie in one of the folders ``allowed``. Raises Unresolved."""
    if not path:
        raise Unresolved("it names no path: write ${provider:PATH:KEY}")
    normal = _normal(Path(path))
    if allowed is not None and not any(normal.is_relative_to(folder) for folder in allowed):
        raise Unresolved(f"{path} may not be read: {_ALLOWED} is {','.join(map(str, allowed))}")
    return normal


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        raise Unresolved(f"the file {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise Unresolved(f"the file {file} is no text in UTF-8") from None


def _replaced(text: str, parts: Mapping[str, str], shortest: int) -> str:
    """Longer contents go first, or a part of one would be left."""
    for reference, content in sorted(parts.items(), key=lambda part: -len(part[1])):
        for form in dict.fromkeys((content, content.strip(), repr(content)[1:-1])):
            if len(form) >= shortest:
                pieces = re.split(rf"(?<!\w){re.escape(form)}(?!\w)", text)
                text = reference.join(pieces)
    return text


def _shows(text: str, parts: Mapping[str, str]) -> bool:
    """Whether a word of what was drawn is in the text, outside of references."""
    for reference in parts:
        text = text.replace(reference, "")
    words = {word.lower() for content in parts.values() for word in re.findall(r"\w{4,}", content)}
    return any(word in text.lower() for word in words)
