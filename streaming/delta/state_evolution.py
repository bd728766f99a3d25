"""How a state table gets the columns of a plan: by DDL, and what becomes of a field that gets none.

Two things keep a field from its column: somebody has added one of such a name, or Spark refuses the DDL. The field is
then *refused* in the plan, which is written to the table, and stays in ``_rescued_data``. Conflicts with other writers,
and storage that fails, are no refusals: the DDL is tried again or raises, and the plan stays as it is.

**The plan is written before its columns.** Columns that it has and the table lacks (a crash in between) are added, or
refused, when the table is next looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from streaming.column_names import Path
from streaming.layout import AnyLayout, TablePlan

_REFUSED = "42"
"""SQLSTATE's class of statements that are wrong as they stand; a parser's complaint is one of them."""
_NOT_OF_A_COLUMN = ("42501", "42P01", "42K03")
"""In that class, but about the whole table: no right to it, no such table, no such path."""


def is_refusal(error: Exception) -> bool:
    """Whether Spark refuses the columns themselves, so that trying again would not help."""
    if not isinstance(error, AnalysisException):
        return False
    state = error.getSqlState() or ""
    return state.startswith(_REFUSED) and state not in _NOT_OF_A_COLUMN


@dataclass(slots=True)
class Evolution:
    """One table's columns. ``schema`` looks at the newest version; ``alter`` runs what follows ALTER TABLE and the
    table's name. ``rewrite`` gives the plan and the schema of one version to a function, commits the plan that this
    returns, if it is another one, and returns it. The last two try conflicts again. ``refusals``: why fields got no
    column.
    """

    layout: AnyLayout
    schema: Callable[[], StructType]
    alter: Callable[[str], None]
    rewrite: Callable[[Callable[[TablePlan, StructType], TablePlan]], TablePlan]
    refusals: dict[Path, str] = field(default_factory=dict)

    def evolve(self, wanted: TablePlan) -> TablePlan:
        """Add what ``wanted`` has beside the table's plan; the plan of the table afterwards."""

        def grown(recorded: TablePlan, schema: StructType) -> TablePlan:
            merged = recorded.merge(wanted)
            others = self.layout.others_fields(schema, recorded, merged)
            self.refusals.update(
                dict.fromkeys(others, "somebody has added a column of such a name to the table")
            )
            return merged.refuse(others)

        return self.complete(self.rewrite(grown))

    def complete(self, plan: TablePlan) -> TablePlan:
        """Add the columns that the table lacks of its plan; the plan without those that Spark refuses."""
        missing = self.layout.missing_columns(self.schema(), plan)
        if not missing or self._added([column.ddl for column in missing]) is None:
            return plan
        # Together they were refused: one by one shows which of them.
        left, refused = plan, []
        for path in [column.path for column in missing]:
            entries = self._lacking(left, path)
            refusal = self._added(entries) if entries else None
            if refusal is not None and self._lacking(left, path):
                self.refusals[path] = str(refusal)
                refused.append(path)
                left = left.refuse([path])
        return self.rewrite(lambda recorded, _: recorded.refuse(refused)) if refused else left

    def _lacking(self, plan: TablePlan, path: Path) -> list[str]:
        """The DDL of this one column, if the table lacks it. After which one it comes depends on what the plan still
        has."""
        return [
            column.ddl for column in self.layout.missing_columns(self.schema(), plan) if column.path == path
        ]

    def _added(self, entries: list[str]) -> AnalysisException | None:
        """Add these columns; returns why Spark refuses them, or None."""
        try:
            self.alter(f"ADD COLUMNS ({', '.join(entries)})")
        except AnalysisException as error:
            if not is_refusal(error):
                raise
            return error
        return None
