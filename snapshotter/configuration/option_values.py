"""What values of options look like, and how each is read from text.

Values come in as text (as Kafka Connect has them), so each type here reads text strictly: ``true`` is a flag and
``yes`` is not, ``1.5`` is no whole number. A value that Debezium has and that does not work here yet is refused by
name, not as if it were a mistake.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from streaming.scope.scope import split_list


class CaptureMode(StrEnum):
    """What a change event carries besides the key."""

    CHANGES = "change_streams"
    FULL = "change_streams_update_full"
    PRE_IMAGE = "change_streams_with_pre_image"
    FULL_PRE_IMAGE = "change_streams_update_full_with_pre_image"


class FullUpdate(StrEnum):
    """Where the document of an update comes from."""

    LOOKUP = "lookup"
    POST_IMAGE = "post_image"


class MatchMode(StrEnum):
    """How entries of include and exclude lists are read."""

    REGEX = "regex"
    LITERAL = "literal"


class LimitAction(StrEnum):
    """What is done where more is captured than ``guardrail.collections.max``."""

    WARN = "warn"
    FAIL = "fail"


class SnapshotMode(StrEnum):
    """What a start of the engine reads (`snapshotter.configuration.snapshot_modes`)."""

    ALWAYS = "always"
    INITIAL = "initial"
    INITIAL_ONLY = "initial_only"
    NO_DATA = "no_data"
    WHEN_NEEDED = "when_needed"
    CONFIGURATION_BASED = "configuration_based"
    CUSTOM = "custom"


class StoreType(StrEnum):
    """What a key store's file is."""

    PKCS12 = "PKCS12"
    JKS = "JKS"


class TableAltered(StrEnum):
    """What is done where somebody else has changed a table, or it is gone."""

    SUSPEND = "suspend"
    REPAIR = "repair"


class NewCollections(StrEnum):
    """What a later start does with captured collections that it finds for the first time."""

    AUTO = "auto"
    READ = "read"
    WARN = "warn"


class PositionLost(StrEnum):
    """What happens where the source no longer has what came after the position."""

    FAIL = "fail"
    CONTINUE = "continue"
    HEAL = "heal"


class Handling(StrEnum):
    """What becomes of an event or a document that cannot be processed, by Debezium's words: the engine stops at it, or
    it goes to the dead letters, with a warning in the log, a debug line, or none."""

    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    IGNORE = "ignore"

    @property
    def fails(self) -> bool:
        """Whether the engine stops at it."""
        return self is Handling.FAIL


class Oversize(StrEnum):
    """What becomes of an event that is larger than the 16 MB that the server sends."""

    FAIL = "fail"
    SKIP = "skip"
    SPLIT = "split"


class Tolerance(StrEnum):
    """As Kafka Connect has it."""

    NONE = "none"
    ALL = "all"


class Layout(StrEnum):
    """How a document lies in its table."""

    COLUMNS = "columns"


E = TypeVar("E", bound=StrEnum)


def _whole_number(value: Any) -> int:
    if not re.fullmatch(r"[+-]?\d+", str(value).strip()):
        raise ValueError("must be a whole number")
    return int(value)


def _flag(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _names(value: Any) -> tuple[str, ...]:
    """Comma-separated texts, trimmed. A comma in brackets, or after a backslash, does not separate."""
    return value if isinstance(value, tuple) else split_list(str(value))


def choice(kind: type[E], *, planned: tuple[str, ...] = (), **renamed: E) -> Any:
    """A validator for one of ``kind``'s values, without regard to case. ``renamed``: old names that still
    work.
    """

    def read(value: Any) -> E:
        text = str(value).strip().lower()
        if text in renamed:
            return renamed[text]
        if text in planned:
            raise ValueError(f"is not supported yet; supported: {', '.join(kind)}")
        if (found := next((one for one in kind if one.lower() == text), None)) is None:
            raise ValueError(f"must be one of {', '.join([*kind, *planned])}")
        return found

    return BeforeValidator(read)


def _limit(value: object) -> object:
    """A whole number; ``unlimited`` is -1."""
    return -1 if str(value).strip().lower() == "unlimited" else _whole_number(value)


WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Limit = Annotated[int, BeforeValidator(_limit)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Text = Annotated[str, BeforeValidator(lambda value: str(value).strip())]
Passed = dict[str, str]
"""All options under a prefix (the option's name ends in ``.*``), by what follows it; they are passed on as they are."""


class Group(BaseModel):
    """Frozen values, read by their dotted names."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)


def option(name: str, doc: str, default: Any = ..., *, secret: bool = False, **limits: Any) -> Any:
    """A field whose alias is the option's name. ``doc`` is what the list of options says of it. Without a default the
    option is required. The value of a ``secret`` one is never shown."""
    return Field(default, alias=name, description=doc, json_schema_extra={"secret": secret}, **limits)
