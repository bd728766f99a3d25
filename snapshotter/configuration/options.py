"""The catalogue: every option that a configuration may name, and what becomes of it.

Options that work come from the fields of ``option_groups``; those that do not (yet), from
``options_elsewhere``. A name is looked up exactly, then by the prefixes (``transforms.*``). ``spark.*`` is
passed through to the Spark session.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from pydantic.fields import FieldInfo

from snapshotter.configuration.option_groups import GROUPS
from snapshotter.configuration.options_elsewhere import MEANINGLESS, PLANNED, REFUSED, RENAMED

SPARK_PREFIX = "spark."
_SECRET_NAME = re.compile(r"secret|password|token|credential|access[.]?key|private[.]?key", re.IGNORECASE)
_NEAR_ENOUGH = 0.6


class Status(StrEnum):
    """What becomes of an option."""

    SUPPORTED = "supported"
    PLANNED = "planned"
    REFUSED = "refused"
    MEANINGLESS = "meaningless"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``default`` is text as a file would have it; None: required, or unset. ``secret``: never
    printed.

    ``harmless`` are the values of an unsupported option that ask for nothing.
    """

    name: str
    default: str | None
    status: Status
    doc: str
    secret: bool = False
    required: bool = False
    harmless: tuple[str, ...] = ()

    def asks_for_nothing(self, value: str) -> bool:
        """Whether a value is Debezium's default; of a class name the last part counts."""
        text = value.strip().lower()
        known = {h.lower() for h in self.harmless}
        return not text or text in known or text.rpartition(".")[2] in known - {""}


@cache
def catalogue() -> Mapping[str, Option]:
    """Every option by name, in order: supported, planned, refused, meaningless, renamed. Names may end in ``.*``."""
    supported = [
        _of_field(field) for group in GROUPS.values() for field in group.model_fields.values() if field.alias
    ]
    spark = Option(SPARK_PREFIX + "*", None, Status.SUPPORTED, "passed through to the Spark session")
    elsewhere = (PLANNED, Status.PLANNED), (REFUSED, Status.REFUSED), (MEANINGLESS, Status.MEANINGLESS)
    rest = [one for table, status in elsewhere for one in _of_table(table, status)]
    old = [Option(name, None, Status.RENAMED, f"is called {new} now") for name, new in RENAMED.items()]
    found: dict[str, Option] = {}
    for option in (*supported, spark, *rest, *old):
        found.setdefault(option.name, option)
    return found


def find(name: str) -> Option | None:
    """The option of a name: exactly, or by the longest prefix that covers it. None for an unknown name."""
    known = catalogue()
    if name in known and not name.endswith("*"):
        return known[name]
    parts = name.split(".")
    prefixes = (".".join([*parts[:length], "*"]) for length in range(len(parts) - 1, 0, -1))
    return next((known[prefix] for prefix in prefixes if prefix in known), None)


def nearest(name: str) -> str | None:
    """The option a wrong name was probably meant to be: an old name's successor, or the most similar one."""
    if name in RENAMED:
        return RENAMED[name]
    # Options that work come first: of two equally near, the more useful one.
    names = [option for option in catalogue() if not option.endswith("*")]
    matches = difflib.get_close_matches(name.lower(), names, n=1, cutoff=_NEAR_ENOUGH)
    return RENAMED.get(matches[0], matches[0]) if matches else None


def is_secret(name: str) -> bool:
    """Whether an option's value must never be shown, known option or not."""
    option = find(name)
    return (option is not None and option.secret) or _SECRET_NAME.search(name) is not None


def as_option_text(value: object) -> str | None:
    """A value as a file would have it; None for one that is not set, and for what stands under a prefix."""
    if value is None or isinstance(value, dict):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(str(item).replace(",", "\\,") for item in value)
    return str(value)


def _of_field(field: FieldInfo) -> Option:
    extra = field.json_schema_extra
    secret = isinstance(extra, dict) and bool(extra.get("secret"))
    required = field.is_required()
    default = None if required else as_option_text(field.default)
    doc = field.description or ""
    return Option(field.alias or "", default, Status.SUPPORTED, doc, secret, required)


def _of_table(table: str, status: Status) -> list[Option]:
    options = []
    for line in table.strip().splitlines():
        name, defaults, doc = (part.strip() for part in line.split("|"))
        harmless = tuple(part for part in defaults.split("/") if part)
        default = harmless[0] if harmless else None
        secret = _SECRET_NAME.search(name) is not None
        options.append(Option(name, default, status, doc, secret, harmless=harmless))
    return options
