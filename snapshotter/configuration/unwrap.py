"""What a configuration asks of Debezium's ExtractNewDocumentState, the transform that most call ``unwrap``.

A state table has documents as they are, which is what this transform is for. The rest that it can be asked for is read
here: what becomes of deletes, and fields of the envelope that become columns. What is not carried out is named, option
by option, with the reason. Only the first one that is listed counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from snapshotter.configuration.deletes_options import DELETES, DeletesMode
from snapshotter.configuration.transforms import Declared, declared
from snapshotter.errors import Problem
from streaming.column_names import DELETED, OUR_COLUMNS, can_be_column, fold
from streaming.delta.further_columns import FurtherColumn, Holds
from streaming.fields.shape import NO_SHAPE, Shape

KIND = "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
_MODE, _OLD_MODE = "delete.tombstone.handling.mode", "delete.handling.mode"
_MODES = {
    _MODE: ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"),
    _OLD_MODE: ("drop", "rewrite", "none"),
}
_FIELDS, _PREFIX = "add.fields", "add.fields.prefix"
_OF_TRANSACTIONS = ("id", "data_collection_order", "total_order")
_NO_HEADERS = "there are no headers"
_FLATTEN, _DELIMITER, _ARRAYS = "flatten.struct", "flatten.struct.delimiter", "array.encoding"
_NEVER = frozenset({"false", "none", ""})
_NOT_DONE: Mapping[str, tuple[frozenset[str], str]] = {
    "add.headers": (_NEVER, _NO_HEADERS),
    "operation.header": (_NEVER, _NO_HEADERS),
    "route.by.field": (_NEVER, "each collection has a table of its own"),
    "sanitize.field.names": (_NEVER, "a field whose name no column can have is in _rescued_data"),
    "field.name.adjustment.mode": (_NEVER, "a field whose name no column can have is in _rescued_data"),
    "predicate": (_NEVER, "it is as if there were none: every collection is meant"),
}
"""Values that ask for nothing, and why others are not carried out."""
_HARMLESS = frozenset(
    {
        *("add.headers.prefix", "negate", "drop.tombstones"),
        *("replace.null.with.default", f"{_MODE}.rewrite-with-id"),
    }
)
"""Which say nothing of their own, or of what tables have not."""


@dataclass(frozen=True, slots=True)
class Unwrap:
    """What it asks for: of ``deletes`` (None: nothing) by the option ``asked``, columns to be ``added``, and the
    ``shape`` of rows; ``warnings`` about the rest, and ``problems`` with values that Debezium would refuse."""

    deletes: DeletesMode | None = None
    asked: str = ""
    shape: Shape = NO_SHAPE
    added: tuple[FurtherColumn, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def deletes_in_force(self, given: DeletesMode | None) -> DeletesMode:
        """``given`` by delta.deletes.mode, which wins."""
        return given or self.deletes or DeletesMode.REMOVE

    def overruled(self, given: DeletesMode | None) -> Iterator[str]:
        """What is said where delta.deletes.mode is ``given`` and this asks for the other."""
        if given is not None and self.deletes not in (None, given):
            yield f"{self.asked} has no effect: {DELETES}={given} decides what becomes of deletes"


def honoured(values: Mapping[str, str]) -> Declared | None:
    """The transform that counts, if there is one."""
    return next((one for one in declared(values) if one.kind == KIND), None)


def unwrap_of(values: Mapping[str, str], server: str) -> Unwrap:
    """What ``values``, all options, ask for; ``server`` is topic.prefix."""
    one = honoured(values)
    if one is None:
        return Unwrap()
    start = f"{one.family}.{one.name}"
    problems: list[Problem] = []
    warnings: list[str] = []
    mode = next((option for option in _MODES if option in one.options), None)
    deletes, asked = None, ""
    if mode is not None:
        text, option = one.options[mode].strip().lower(), f"{start}.{mode}"
        asked = f"{option}={text}"
        if text not in _MODES[mode]:
            problems.append(Problem(option, f"must be one of {', '.join(_MODES[mode])}", one.options[mode]))
        deletes = DeletesMode.SOFT if text.startswith("rewrite") else DeletesMode.REMOVE
        warnings += _of_deletes(option, text)
    shape = _shape(one, start, problems)
    added = list(_added(one, start, server, warnings))
    warnings += _not_done(one, start)
    return Unwrap(deletes, asked, shape, tuple(added), tuple(warnings), tuple(problems))


def _shape(one: Declared, start: str, problems: list[Problem]) -> Shape:
    values = {option: one.options.get(option, "").strip() for option in (_FLATTEN, _DELIMITER, _ARRAYS)}
    for option, allowed in ((_FLATTEN, ("true", "false", "")), (_ARRAYS, ("array", "document", ""))):
        if values[option].lower() not in allowed:
            expected = " or ".join(filter(None, allowed))
            problems.append(Problem(f"{start}.{option}", f"must be {expected}", values[option]))
    return Shape(
        values[_FLATTEN].lower() == "true", values[_DELIMITER] or "_", values[_ARRAYS].lower() == "document"
    )


def _of_deletes(option: str, mode: str) -> Iterator[str]:
    if mode == "drop":
        yield f"{option} is drop: rows of deleted documents go, which a sink of Debezium's would keep as live ones"
    elif mode.startswith("rewrite"):
        yield (
            f"{option} is {mode}: deletes are soft, and what Debezium calls __deleted is the column {DELETED} here "
            "(BOOLEAN)"
        )


def _added(one: Declared, start: str, server: str, warnings: list[str]) -> Iterator[FurtherColumn]:
    """The columns, as Debezium names them: a struct that is written out is part of the name, a new name behind a colon
    takes its place, and the prefix goes before."""
    option, prefix = f"{start}.{_FIELDS}", one.options.get(_PREFIX, "__").strip()
    taken: set[str] = set()
    for entry in filter(None, (part.strip() for part in one.options.get(_FIELDS, "").split(","))):
        field, _, new = entry.partition(":")
        struct, dot, last = field.rpartition(".")
        where = struct if dot else _struct_of(last)
        name = prefix + (new or (f"{struct}_{last}" if dot else last))
        holds = _HOLDS.get(f"{where}.{last}" if where else last)
        if holds is None:
            warnings.append(f"{option}: {entry} gets no column: {_why_not(where, last)}")
        elif name in OUR_COLUMNS and _HELD.get(name) is holds:
            continue
        elif not can_be_column(name) or fold(name) in taken:
            warnings.append(f"{option}: {entry} gets no column: {name} is the name of another, or of none")
        else:
            taken.add(fold(name))
            yield FurtherColumn(name, holds, server if holds is Holds.SOURCE_NAME else "")


_HOLDS = {holds.value: holds for holds in Holds if holds is not Holds.DELETED}
_HELD = {"_op": Holds.OP}
"""What every table says already, where somebody's prefix comes to the same name."""


_ELSEWHERE = {
    "transaction": "an event's transaction has id, total_order and data_collection_order",
    "updateDescription": "Debezium's transform finds none either; name its fields one by one: removedFields,"
    " updatedFields, truncatedArrays, each behind updateDescription.",
    "before": "a row is a document as it is now, and Debezium's transform, to which before is one text, finds none"
    " either; a changelog table has it",
    "after": "it is a column already, if the document has it, and Debezium's transform, to which after is one text,"
    " finds none either",
}


def _struct_of(field: str) -> str:
    """Where Debezium looks for a field without a struct."""
    if field in ("op", "ts_ms"):
        return ""
    if field in _OF_TRANSACTIONS:
        return "transaction"
    return field if field in ("updateDescription", "before", "after") else "source"


def _why_not(struct: str, field: str) -> str:
    if struct in _ELSEWHERE:
        return _ELSEWHERE[struct]
    if field == "snapshot":
        return "_op is r in a row that was read"
    return "no row of a table says it"


def _not_done(one: Declared, start: str) -> Iterator[str]:
    for option, value in one.options.items():
        if option in _NOT_DONE:
            nothing, why = _NOT_DONE[option]
            if value.strip().lower() not in nothing:
                yield f"{start}.{option} is not carried out: {why}"
        elif option not in {*_MODES, _FIELDS, _PREFIX, _FLATTEN, _DELIMITER, _ARRAYS, *_HARMLESS}:
            yield f"{start}.{option} is not carried out: it is no option that is known here"
