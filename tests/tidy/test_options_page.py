"""The page of all options is what the code makes, and the lists behind it do not contradict one another."""

from __future__ import annotations

from snapshotter.configuration.option_groups import GROUPS
from snapshotter.configuration.options import catalogue
from snapshotter.configuration.options_elsewhere import MEANINGLESS, PLANNED, RENAMED
from snapshotter.configuration.options_page import page
from tests.support.sources import ROOT


def test_the_page_is_made_from_the_code() -> None:
    """``docs/options.md``, as ``make options`` writes it."""
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == page(), "run `make options`"


def test_every_option_is_on_it() -> None:
    """By its name, whatever becomes of it."""
    missing = [name for name in catalogue() if f"| `{name}` |" not in page()]
    assert missing == []


def test_an_option_stands_in_one_list() -> None:
    """One that works is no longer among those that are still to come, or mean nothing."""
    works = [f.alias for group in GROUPS.values() for f in group.model_fields.values() if f.alias]
    tables = [line.split("|")[0].strip() for line in f"{PLANNED}{MEANINGLESS}".strip().splitlines() if line]
    names = [*works, *tables, *RENAMED]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
    prefixes = [name.removesuffix("*") for name in tables if name.endswith(".*")]
    assert [name for name in works if any(name.startswith(prefix) for prefix in prefixes)] == []
