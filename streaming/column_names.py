"""Which field names of a document can be names of a Delta column.

A field whose name cannot be a column is not lost: it stays in ``_rescued_data``. The rules are conservative:
a name refused costs a little comfort, a name that some reader cannot address costs the table.

- Delta refuses `` ,;{}()\\n\\t=`` in names without column mapping. Dots and back-quotes would need quoting in
  every path expression, control characters in every tool.
- Spark resolves names without regard to case, so ``Name`` beside ``name`` would be ambiguous: the first one
  keeps the column. Readers do not agree on which names are the same, and Spark itself has two opinions (``GRÖẞE`` and
  ``größe``, ``İ`` and ``i̇``). `fold` is at least as coarse as each of them.
- A character that Unicode has not assigned yet may turn out to be another one's capital letter.
- At the top level our own columns, Spark's ``_metadata`` and Delta's change-data columns are taken, and so is
  every name that starts with one of ours. MERGE has scratch columns like ``_row_id_``: refused as well.

Pure: standard library only.
"""

from __future__ import annotations

import re
import unicodedata

KEY = "_key"
RESCUED_DATA = "_rescued_data"
CLUSTER_TIME = "_cluster_time"
SOURCE_TS = "_source_ts"
OP = "_op"
DELETED = "_deleted"
ORDER = "_order"
"""Of an event in a changelog: its place among those of its time."""

OUR_COLUMNS = (KEY, RESCUED_DATA, CLUSTER_TIME, SOURCE_TS, OP, DELETED)
"""The columns that the product adds to a table, beside those of the documents."""

Path = tuple[str, ...]
"""Where a field is: through structs by name, through arrays by ``element``, as ALTER TABLE ADD COLUMNS wants it."""

_TAKEN = frozenset(("_metadata", "_change_type", "_commit_version", "_commit_timestamp"))
_REFUSED_CHARACTERS = frozenset(" ,;{}()\n\t=.`")
_SPECIAL = frozenset("\\'$")
_LENGTH_MAX = 255
_DOTTED_I = re.compile("i\u0307+")


def fold(name: str) -> str:
    """Equal for two names that any reader may take for one another.

    Full case folding of the capital letters, where İ, i with a dot above it, and ı are all i. That is coarser than
    Java's lower case (Spark's duplicate columns), its ``equalsIgnoreCase`` (Spark's resolver), and the lower case of
    Python, delta-rs and DuckDB.
    """
    if name.isascii():
        return name.lower()
    return _DOTTED_I.sub("i", "".join(character.upper().casefold() for character in name))


def can_be_nested(name: str) -> bool:
    """Whether a field of a nested document may become a field of a STRUCT."""
    return can_be_addressed(name) and (name.isascii() or not any(map(_is_unassigned, name)))


def can_be_column(name: str) -> bool:
    """Whether a field at the top level of a document may become a column of the table."""
    return not is_taken(name) and can_be_nested(name)


def can_be_addressed(name: str) -> bool:
    """Whether tables can have such a field at all. Older ones may have more than `can_be_nested` allows today."""
    if not name or len(name) > _LENGTH_MAX:
        return False
    return not any(c in _REFUSED_CHARACTERS or c < " " or c == "\x7f" for c in name) and _encodable(name)


def is_taken(name: str) -> bool:
    """Whether a name at the top level is ours, Spark's or Delta's."""
    folded = fold(name)
    scratch = len(name) > 1 and name.startswith("_") and name.endswith("_")
    return folded.startswith(OUR_COLUMNS) or folded in _TAKEN or scratch


def literal(text: str) -> str | None:
    """A string as Spark's SQL writes it; None where that depends on Spark's settings, or where Spark would put the
    value of one in the place of ``${...}``."""
    return f"'{text}'" if text.isascii() and text.isprintable() and not _SPECIAL & set(text) else None


def quoted(name: str) -> str:
    """The name as a SQL identifier: ``a`b`` -> ```a``b```."""
    return "`" + name.replace("`", "``") + "`"


def _encodable(name: str) -> bool:
    """Lone surrogates stand for bytes that are no UTF-8: no column can be called so."""
    return not any("\ud800" <= c <= "\udfff" for c in name)


def _is_unassigned(character: str) -> bool:
    return unicodedata.category(character) == "Cn"
