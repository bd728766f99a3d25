"""The options of tables' upkeep: when small files are put together, and for how long old ones stay."""

from __future__ import annotations

from collections.abc import Iterator

from snapshotter.configuration.option_values import Flag, Group, WholeNumber, option
from snapshotter.errors import Problem
from streaming.delta.upkeep_plan import SAFE_HOURS, Thresholds

RETENTION, RETENTION_CHECK = "delta.retention.hours", "delta.retention.check"
_USUAL = Thresholds()


class UpkeepOptions(Group):
    """What becomes of the files of tables beside landings."""

    enabled: Flag = option(
        "engine.upkeep.enabled",
        "keep the files of state tables in order beside landings: small ones are put together, rows that are marked "
        "as gone are purged, old files are removed",
        True,
    )
    small_files: WholeNumber = option(
        "engine.upkeep.small.files",
        "small files of about one size that a table may have before they are put together; one in which rows are "
        "marked as gone counts for four",
        _USUAL.files,
        ge=2,
        le=1_000,
    )
    file_bytes: WholeNumber = option(
        "engine.upkeep.file.bytes",
        "bytes that a file which others are put together into aims at; below half of it a file is small",
        _USUAL.file_bytes,
        ge=1 << 20,
        le=4 << 30,
    )
    marked_percent: WholeNumber = option(
        "engine.upkeep.marked.percent",
        "how much of a file's rows may be marked as gone before it is written anew without them",
        _USUAL.marked_percent,
        ge=1,
        le=100,
    )
    retention_hours: WholeNumber = option(
        RETENTION,
        "how long files stay that a table no longer has, for readers of older versions; 0 is for ever",
        _USUAL.retention_hours,
        ge=0,
        le=10 * 365 * 24,
    )
    retention_check: Flag = option(
        RETENTION_CHECK,
        f"refuse a delta.retention.hours below {SAFE_HOURS}: a reader that takes longer would miss files",
        True,
    )

    @property
    def thresholds(self) -> Thresholds | None:
        """When something is due; None where files are left alone."""
        hours, checked = self.retention_hours, self.retention_check
        limits = Thresholds(self.small_files, self.file_bytes, self.marked_percent, hours, checked)
        return limits if self.enabled else None


def check(upkeep: UpkeepOptions) -> Iterator[Problem]:
    """A retention that is refused unless somebody insists on it."""
    if upkeep.retention_check and 0 < upkeep.retention_hours < SAFE_HOURS:
        yield Problem(
            RETENTION,
            f"is less than {SAFE_HOURS}, so readers that take longer would miss files; "
            f"set {RETENTION_CHECK}=false if none does",
            str(upkeep.retention_hours),
        )
