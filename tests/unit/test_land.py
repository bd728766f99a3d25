"""The landing of a batch: what it makes of tables that could not be landed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from snapshotter.core.values.suspension import TableUnusable
from snapshotter.core.values.window import WindowId
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.tables import Tables
from snapshotter.landing.targets.side_by_side import ReadBuffersLost
from snapshotter.landing.targets.state_tables import StateTables
from snapshotter.landing.targets.target import CollectionContents, Contents, Identity, Landed
from streaming.delta.landing_errors import LandingError
from streaming.namespaces import Namespace

NAMES = [Namespace("shop", name) for name in ("items", "orders", "people", "stock")]
LOST = {name: frozenset({WindowId("a", number)}) for number, name in enumerate(NAMES[:2], 1)}


def land(patch: pytest.MonkeyPatch, errors: dict[Namespace, Exception]) -> Landed:
    """Land four tables, some of which end in errors."""
    nothing = cast(Any, None)

    def land_one(target: StateTables, identity: Identity, said: None, batch: CollectionContents) -> str:
        if batch.namespace in errors:
            raise errors[batch.namespace]
        return "landed"

    patch.setattr(StateTables, "_land_one", land_one)
    collections = {name: CollectionContents(name, None) for name in NAMES}
    contents = Contents(Identity(1, {}), nothing, collections=collections)
    tables = Tables(nothing, "", lambda: "e", nothing, nothing)
    return StateTables(nothing, tables, Blame()).land(contents)


def test_what_several_tables_have_lost_is_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that dies takes READs of several collections along. A table that has committed its events records the
    batch, and would pass for landed, without an outcome of its windows, if it were tried once more with them."""
    landed = land(monkeypatch, {name: ReadBuffersLost(windows) for name, windows in LOST.items()})
    assert (landed.lost, landed.faults) == (LOST[NAMES[0]] | LOST[NAMES[1]], ())
    assert sorted(landed.collections) == NAMES[2:]


def test_what_is_wrong_with_single_tables_is_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have landed; READs that are lost besides are told as well."""
    errors = {
        NAMES[0]: LandingError("it is no table of ours"),
        NAMES[1]: ReadBuffersLost(LOST[NAMES[1]]),
        NAMES[2]: TableUnusable(NAMES[2], "name", "too long", "rename it"),
    }
    landed = land(monkeypatch, errors)
    assert landed.lost == LOST[NAMES[1]]
    assert [(fault.namespace, fault.cause) for fault in landed.faults] == [
        (NAMES[0], "unusable"),
        (NAMES[2], "name"),
    ]
    assert list(landed.collections) == NAMES[3:]


def test_another_error_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the run, and so every window: what was lost besides does not matter any more."""
    with pytest.raises(OSError, match="no disk"):
        land(monkeypatch, {NAMES[0]: ReadBuffersLost(LOST[NAMES[0]]), NAMES[2]: OSError("no disk")})
