"""The page of all options, ``docs/options.md``: made from the catalogue, so that nothing is said of one that is not so.

``make options`` writes it, and a test finds a page that is not what the code makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import getdoc

from snapshotter.configuration.option_groups import GROUPS
from snapshotter.configuration.options import SPARK_PREFIX, Option, Status, catalogue
from snapshotter.configuration.options_elsewhere import RENAMED

_INTRODUCTION = """\
# Options

Every option that a configuration may name, and what becomes of it. This page is made from the code by `make options`;
`snapshotter config --options` prints the same list.

- **Honoured**: it works as described. Without a default it is not set, unless it is required.
- **Still to come**: refused, unless its value is Debezium's default, which asks for nothing.
- **Refused**: it asks for something that this engine is not to do; the reason stands beside it.
- **Without meaning here**: named in a warning, unless its value is Debezium's default. Transforms and predicates are
  named one by one, with their classes.
- **Old names**: taken as what they are called now, with a warning. The new name, if it is given too, goes first.

Any other name is an error that suggests the nearest one. A name that ends in `.*` stands for all that begin so.

Files are `.json` (a request of Kafka Connect, or its bare `config`), `.properties` (with or without the prefix
`debezium.source.`), `.yaml` (Strimzi's `kind: KafkaConnector`; `config.providers` of a `KafkaConnect` in the same file
counts) and `.toml` (names in quotes). A configuration of Debezium has no `delta.warehouse`: add it, or set the
environment variable `SNAPSHOTTER_DELTA_WAREHOUSE`.

## Values from elsewhere

| in a value | stands for | Kafka's class | further names |
|---|---|---|---|
| `${file:PATH:KEY}` | a key of a properties file | `FileConfigProvider` | `strimzifile` |
| `${dir:PATH:KEY}` | the content of a file in a directory | `DirectoryConfigProvider` | `directory`, `strimzidir` |
| `${env:NAME}` | an environment variable | `EnvVarConfigProvider` | `strimzienv` |
| `${NAME}`, `${NAME:default}` | in a file of Debezium Server: an environment variable, or a property | | |

They may be part of a value, and are replaced once. `config.providers` gives these classes other names; parameters are
`allowed.paths` for the first two and `allowlist.pattern` for the third. Other classes are named, and a value that
refers to one is an error. What stands for nothing is an error that names option, provider, path and key.

No message shows what a reference stands for: the reference is shown in its place. `snapshotter config` masks secrets,
and of the options that are passed on to Spark or to a client of Kafka all that come from files.
"""


_ELSEWHERE = (
    ("Still to come", Status.PLANNED),
    ("Refused", Status.REFUSED),
    ("Without meaning here", Status.MEANINGLESS),
)


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([_INTRODUCTION, *_honoured(), *_others()]).rstrip() + "\n"


def _honoured() -> Iterator[str]:
    known = catalogue()
    yield "## Honoured\n"
    for group in GROUPS.values():
        yield f"### {(getdoc(group) or group.__name__).splitlines()[0].rstrip('.').partition(' (`')[0]}\n"
        yield from _table(known[field.alias] for field in group.model_fields.values() if field.alias)
    yield "### Spark\n"
    yield from _table([known[f"{SPARK_PREFIX}*"]])


def _others() -> Iterator[str]:
    for title, status in _ELSEWHERE:
        yield f"## {title}\n"
        yield from _table(option for option in catalogue().values() if option.status is status)
    yield "## Old names\n"
    yield "| option | taken as |"
    yield "|---|---|"
    yield from (f"| `{old}` | `{new}` |" for old, new in RENAMED.items())


def _table(options: Iterable[Option]) -> Iterator[str]:
    yield "| option | default | |"
    yield "|---|---|---|"
    for option in options:
        defaults = option.harmless or ((option.default,) if option.default else ())
        default = "*required*" if option.required else " or ".join(f"`{one}`" for one in defaults)
        yield f"| `{option.name}` | {default} | {_escaped(option.doc)} |"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
