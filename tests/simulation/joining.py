"""Starts of the simulated engine under other include lists: what each reads is decided by the engine's own rule.

`FirstLoad` stands here over the simulated journal and tables, under ``no_data`` and
`engine.snapshot.new.collections=read`: a collection that joins late is read, over rows with reconcile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from snapshotter.configuration.option_values import NewCollections
from snapshotter.configuration.snapshot_modes import MODES, SnapshotPolicy
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.engine.first_load import FirstLoad
from snapshotter.state.generation import Generation
from streaming.fields.rules import FieldRules
from streaming.namespaces import Namespace

from .sink import Durable, Table


@dataclass(frozen=True, slots=True)
class _Config:
    captured: frozenset[Namespace]
    policy: SnapshotPolicy = MODES["no_data"]
    new_collections: NewCollections = NewCollections.READ
    fields: FieldRules = field(default_factory=FieldRules)
    heal_first: None = None

    def captures_data(self, namespace: Namespace) -> bool:
        return namespace in self.captured

    def loads_initially(self, namespace: Namespace) -> bool:
        return True

    def initial_filter(self, namespace: Namespace) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class _Journal:
    sink: Durable

    def add(self, request: SnapshotRequest) -> bool:
        self.sink.asked.append(request)
        self.sink.accept(request)
        return True

    def waiting(self, saved: Progress) -> list[RequestProgress]:
        return list(map(self.sink.controls.applied, self.sink.waiting(saved)))

    def existing(self, saved: Progress) -> list[RequestProgress]:
        return [*saved.requests, *self.waiting(saved)]

    def digest_of(self, name: str) -> str | None:
        return next((r.digest for r in self.sink.asked if r.id == name), None)


@dataclass(frozen=True, slots=True)
class _Tables:
    tables: dict[Namespace, Table]

    def there(self) -> list[Namespace]:
        return [n for n, table in self.tables.items() if table.there and table.log]

    def filled(self, namespaces: Iterable[Namespace]) -> frozenset[Namespace]:
        return frozenset(n for n in namespaces if self.tables[n].rows)


def begin(
    progress: Progress, sink: Durable, tables: dict[Namespace, Table], captured: frozenset[Namespace]
) -> tuple[Progress, list[SnapshotRequest]]:
    """The state from which a start that captures so much begins, and the load that begins with it."""
    load = FirstLoad(
        cast(Any, _Config(captured)),
        cast(Any, _Journal(sink)),
        captured=lambda: sorted(captured),
        tables=lambda: _Tables(tables),
        skipped=lambda: None,
    )
    return load.begin(progress, Generation(), load.look(progress))
