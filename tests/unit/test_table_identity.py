"""`streaming.delta.table_identity`: what a table has come to since an engine looked last, on values."""

from __future__ import annotations

import pytest

from streaming.delta.table_identity import Alteration, Owner, TableMark, Version, altered, engine_of, is_of

MARK = TableMark("t1", 5, "c5")


def verdict(newest: TableMark | None, *behind: Version, at_mark: str | None = "c5") -> Alteration | None:
    found = altered(MARK, newest, at_mark, behind)
    return None if found is None else found[0]


def at(version: int) -> TableMark:
    return TableMark("t1", version, f"c{version}")


def ours(number: int, *, takes_over: bool = False) -> Version:
    return Version(number, "MERGE", changes_data=True, ours=True, takes_over=takes_over)


def test_nothing_has_happened_where_the_newest_version_is_the_marks() -> None:
    """Then no commit is looked at."""
    assert verdict(MARK) is None


def test_own_commits_and_such_as_change_no_data_are_lived_with() -> None:
    """Whoever optimizes a table, or adds a column, has changed no row of it."""
    optimized = Version(7, "OPTIMIZE", changes_data=False)
    altered_schema = Version(6, "ADD COLUMNS", changes_data=False)
    assert verdict(at(8), ours(8), optimized, altered_schema) is None


@pytest.mark.parametrize("operation", ["RESTORE", "DELETE", "UPDATE", "MERGE", "WRITE", ""])
def test_another_writers_change_of_data_is_named(operation: str) -> None:
    """Whatever its name, and also where this engine has landed behind it since."""
    change = Version(6, operation, changes_data=True)
    assert altered(MARK, at(7), "c5", [ours(7), change]) == (Alteration.CHANGED, change)


def test_behind_a_takeover_nothing_older_matters() -> None:
    """The other's rows are there; the collection is read again. What others do later counts."""
    other = Version(6, "MERGE", changes_data=True)
    assert verdict(at(8), ours(8), ours(7, takes_over=True), other) is None
    assert verdict(at(8), Version(8, "WRITE", changes_data=True), ours(7, takes_over=True), other) is (
        Alteration.CHANGED
    )
    foreign = Version(7, "SET TBLPROPERTIES", changes_data=False, takes_over=True)
    assert verdict(at(7), foreign, other) is Alteration.CHANGED


def test_a_table_that_is_gone_another_or_older() -> None:
    """Each is told apart from the others, before any commit is looked at."""
    assert verdict(None, at_mark=None) is Alteration.MISSING
    assert verdict(TableMark("t2", 9, "x"), at_mark="y") is Alteration.ANOTHER
    assert verdict(at(4), at_mark=None) is Alteration.OLDER


def test_an_older_copy_that_others_have_gone_on_with_is_older_too() -> None:
    """The folder was restored from a copy, and OPTIMIZE has made as many versions as were lost."""
    newest = TableMark("t1", 6, "x6")
    assert verdict(newest, Version(6, "OPTIMIZE", changes_data=False), at_mark="x5") is Alteration.OLDER
    assert verdict(TableMark("t1", 5, "x5"), at_mark="x5") is Alteration.OLDER


def test_a_log_that_reaches_back_too_little_is_said() -> None:
    """What is not known is not taken for sound."""
    assert verdict(at(9), ours(9), ours(8), at_mark=None) is Alteration.UNKNOWN
    assert verdict(at(7), ours(7), ours(6), at_mark=None) is None, "the mark's own commit may be gone"


def test_a_mark_of_a_writer_without_ids_counts_by_its_number() -> None:
    """Not every writer gives its commits ids."""
    assert altered(TableMark("t1", 5), at(5), "c5", ()) is None


def test_a_mark_and_an_owner_survive_their_text() -> None:
    """As state files and table properties hold them; a text that is none is refused."""
    assert TableMark.from_json(MARK.to_json()) == MARK
    owner = Owner('a "name"', "id")
    assert Owner.from_text(owner.to_text()) == owner
    for text in ("[]", "{}", "shop", '"shop"'):
        with pytest.raises(ValueError):
            Owner.from_text(text)


@pytest.mark.parametrize(
    ("app_id", "name"),
    [
        ("snapshotter:shop:0c2f", "shop"),
        ("snapshotter:shop:0c2f:reads", "shop"),
        ("snapshotter:a:b:0c2f", "a:b"),
        ("another", None),
        ("snapshotter:0c2f", None),
    ],
)
def test_an_application_id_names_its_engine(app_id: str, name: str | None) -> None:
    """Also one whose name has colons in it; of another writer nothing is said."""
    assert engine_of(app_id) == name


def test_a_commit_is_its_owners() -> None:
    """By the owner that it names; commits of earlier versions name the engine only."""
    me = Owner("shop", "1")
    assert is_of(me, "snapshotter:shop:x", me)
    assert is_of(me, "snapshotter:shop:x", None)
    assert not is_of(me, "snapshotter:shop:x", Owner("shop", "2"))
    assert not is_of(me, "snapshotter:shop2:x", None)
