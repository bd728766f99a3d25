"""What happens to tables and state behind the engine's back, and what operators do about it."""

from __future__ import annotations

from random import Random
from typing import Any

from snapshotter.core.values.requests import SnapshotRequest, Wanted
from streaming.namespaces import Namespace

from .oracles import Oracles
from .sink import THEIRS, Durable, Row, Table
from .source import Source


class Strangers:
    """The half of a `World` that changes tables without the engine."""

    rng: Random
    scenario: Any
    faulty: bool
    oracles: Oracles
    tables: dict[Namespace, Table]
    source: Source
    machine: Any
    process: Any
    waiting: Any
    captured: frozenset[Namespace]
    crash: Any
    happens: Any
    known: Any
    ask: Any

    def disturb(self) -> None:
        """Somebody changes a table behind the engine's back: one that it knows. (What happens to a table between the
        first landing in it and the first saved word of that, nobody can tell.)"""
        known = sorted(self.oracles.durable.tables) if self.faulty and self.scenario.disturbed else []
        if not known or not (table := self.tables[namespace := self.rng.choice(known)]).there:
            return
        landing = self.process is not None and self.process.committing == namespace
        if self.happens("altered"):
            kept = {key: row for key, row in table.rows.items() if self.rng.random() < 0.7}
            table.alter({key: Row(row.doc, from_read=False) for key, row in kept.items()})
        elif self.happens("removed"):
            table.remove()
        elif not landing and table.backup is not None and self.happens("put_back"):
            table.put_back()
        elif self.happens("stolen"):
            table.owner = THEIRS
        elif self.happens("optimized"):
            table.optimize()
            return
        else:
            return
        self.oracles.disturbed(namespace)

    def heal(self) -> None:
        """An operator looks at what is suspended, takes tables back, and has the collections read again."""
        if self.machine is None:
            return
        for namespace, suspension in self.machine.progress.suspended.items():
            asked = any(
                (task := r.task(namespace)) is not None and not task.ended and suspension.restores(r.id, task)
                for r in self.known()
            )
            cure = (Wanted(namespace, reconcile=True),)
            waits = any(isinstance(said, SnapshotRequest) and said.wanted == cure for said in self.waiting)
            if namespace not in self.captured:
                continue  # a request for it is refused
            if not asked and not waits and not suspension.lands:
                asked_for = self.ask(cure)
                if self.tables[namespace].owner == THEIRS:
                    self.tables[namespace].take_over()
                    self.oracles.stale[namespace] = asked_for

    def touch_all(self) -> None:
        """What has happened to a table is noticed when something lands in it."""
        for namespace, collection in self.source.collections.items():
            key = collection.keys[0]
            alive = collection.state(key, self.source.clock) is not None
            self.source.write((namespace, key, "r" if alive else "c"))

    def lose_state(self) -> None:
        """The engine's folder is gone with all that it knew; its tables are there. A first load reads everything, and
        over rows it reconciles."""
        self.sink, self.oracles = Durable(), Oracles(self)
        self.commands, self.waiting = [], []
        self.stream_start = self.source.clock
        for table in self.tables.values():
            table.recorded = table.appended = -1  # of another checkpoint
            table.said = -1, ()
        asked = self.ask(first) if (first := self.first_load()) else ""
        self.oracles.stale = {n: asked if n in self.captured else "" for n in self.tables}

    def first_load(self) -> tuple[Wanted, ...]:
        there = ((n, self.tables[n]) for n in self.tables if n in self.captured)
        return tuple(Wanted(n, reconcile=bool(table.rows)) for n, table in there)

    def change_what_is_captured(self) -> None:
        """Before a start, somebody includes a collection that was left out, or leaves one out: what changes in it from
        then on is not seen."""
        if self.happens("late"):
            self.captured ^= {self.rng.choice(list(self.tables))}
        for namespace in self.tables.keys() - self.captured:
            self.oracles.stale[namespace] = ""

    def include_all(self) -> None:
        """The next start captures every collection."""
        if self.captured != self.tables.keys():
            self.captured = frozenset(self.tables)
            self.crash()
