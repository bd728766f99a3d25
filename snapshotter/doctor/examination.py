"""All that the doctor looks at, in one pass over a configuration: what a start would check, each by itself, and what no
start looks at.

Nothing is changed anywhere. Each look is made by itself: one that cannot be made is a finding, which names the
privilege where that is what it takes, and stops no other. Only a MongoDB that does not answer, or is none to capture
from, ends what is asked of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from pymongo import MongoClient

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.settings import Settings
from snapshotter.doctor import look_machine, look_server, rules_collections, rules_machine, rules_source
from snapshotter.doctor.facts import CollectionFacts, Kind
from snapshotter.doctor.finding import Area, Finding, Severity, in_order
from snapshotter.doctor.look_collections import look as look_at_collections
from snapshotter.engine import assembly, preflight
from snapshotter.engine.catalogue_watch import readings_of
from snapshotter.engine.guardrail import Guardrail
from snapshotter.engine.positions import known_position
from snapshotter.engine.privileges import (
    OPLOG,
    WITHOUT_SIZES,
    Privilege,
    grant,
    lacking,
    needed,
    sizes_of_documents,
)
from snapshotter.errors import describe
from snapshotter.reading.oplog import look as look_at_oplog
from snapshotter.reading.stored_images import lost_without
from snapshotter.reporting.status import STATUS_FILE, EngineState, Status
from snapshotter.state.storages import local_path, needs_spark, storage_for
from streaming.mongo.deployment import new_client
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind as ErrorKind
from streaming.positions import ClusterTime

WAIT_MS = 5_000
"""For a server that can answer: whoever asks the doctor waits for him."""
_FRESH_SECONDS = 30.0
_ON_THIS_MACHINE = (preflight.PIN_THREAD, *preflight.PORTS)


@dataclass(frozen=True, slots=True)
class Known:
    """What an engine has left beside its tables: its ``position``, its ``speed`` in documents a second, and whether it
    is ``running``."""

    position: ClusterTime | None = None
    speed: float | None = None
    running: bool = False


def examine(settings: Settings, now: Callable[[], float] = time.time) -> list[Finding]:
    """All findings about an engine of these ``settings``, in the order in which they are shown. ``now`` is this
    machine's clock."""
    found = [*_options(settings), *rules_machine.packages(look_machine.packages())]
    found.append(rules_machine.java(look_machine.java()))
    config = _asked(Area.OPTIONS, "options", lambda: assembly.engine_config(settings), found)
    _asked(Area.OPTIONS, "signal.consumer.*", lambda: assembly.check(settings), found)
    if config is None:
        return in_order(found)
    known = _asked(Area.WAREHOUSE, "the engine's state", lambda: _known(config), found) or Known()
    wait = min(settings.mongodb.server_selection_timeout_ms, WAIT_MS)
    with new_client(config.uri, serverSelectionTimeoutMS=wait) as client:
        captured = _Patient(client, config, known, now, found).examine()
    size = _sum([one.bytes for one in captured])
    _asked(Area.WAREHOUSE, rules_machine.WAREHOUSE, lambda: found.extend(_warehouse(config, size)), found)
    return in_order(found)


def _asked(area: Area, subject: str, look: Callable[[], Any], found: list[Finding]) -> Any:
    """What ``look`` gives; None where it cannot be had, and then ``found`` has why."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - it is told, and the next look is made all the same
        told = describe(error)
        found.append(Finding(area, Severity.ERROR, subject, told.message, told.next_step))
        return None


def _options(settings: Settings) -> Iterator[Finding]:
    """What fights is refused when a configuration is read; what has no effect is said here."""
    for warning in settings.warnings:
        yield Finding(
            Area.OPTIONS, Severity.WARNING, "options", warning, "correct it, or take the option out"
        )
    if not settings.warnings:
        yield Finding(Area.OPTIONS, Severity.OK, "options", "all of them go together")


def _known(config: EngineConfig) -> Known:
    """What is beside the tables, where that is on this machine; nothing elsewhere."""
    if needs_spark(config.state_location):
        return Known()
    storage = storage_for(config.state_location)
    position, _ = known_position(storage)
    text = storage.read_text(STATUS_FILE)
    if text is None:
        return Known(position)
    status = Status.from_json(text)
    lives = status.state in (EngineState.STARTING, EngineState.RUNNING, EngineState.STOPPING)
    age = None if status.updated_at is None else (datetime.now(UTC) - status.updated_at).total_seconds()
    return Known(position, status.snapshot_speed, lives and age is not None and age < _FRESH_SECONDS)


def _warehouse(config: EngineConfig, size: int | None) -> Iterator[Finding]:
    if needs_spark(config.warehouse):
        yield rules_machine.far(config.warehouse, urlsplit(config.warehouse).scheme)
        return
    yield from rules_machine.place(look_machine.place(local_path(config.warehouse)), size)


def _sum(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


@dataclass(slots=True)
class _Patient:
    """One MongoDB, asked for an engine of this ``config``; ``known`` is what is known of the engine itself. What there
    is to say goes into ``found``."""

    client: MongoClient[Any]
    config: EngineConfig
    known: Known
    now: Callable[[], float]
    found: list[Finding]

    def examine(self) -> list[CollectionFacts]:
        """The collections that are captured; none where MongoDB cannot be asked."""
        for one in preflight.checks(self.client, self.config):
            if one.subject in preflight.PORTS and self.known.running:
                continue  # the engine itself has them
            if one.subject == preflight.WAREHOUSE:
                continue  # looked at below, with its room
            if one.subject == preflight.PRIVILEGES:
                _asked(Area.PRIVILEGES, one.subject, self._privileges, self.found)
                continue
            before = len(self.found)
            if one.subject in _ON_THIS_MACHINE:
                _asked(Area.OPTIONS, one.subject, one.look, self.found)
                continue
            self._ask(Area.MONGODB, one.subject, one.look, self._needed, Severity.WARNING)
            if one.subject == preflight.DEPLOYMENT and len(self.found) > before:
                return []
        _asked(Area.MONGODB, "server", self._server, self.found)
        captured: list[CollectionFacts] = []
        self._ask(
            Area.CAPTURED,
            "collections",
            lambda: captured.extend(self._captured()),
            self._needed,
            Severity.WARNING,
        )
        self._ask(Area.OPLOG, "oplog", lambda: self._oplog(captured), lambda: OPLOG[:1], Severity.NOTE)
        return captured

    def _needed(self) -> Iterable[Privilege]:
        return needed(self.config, sharded=self.client.is_mongos)

    def _ask(
        self,
        area: Area,
        subject: str,
        look: Callable[[], Any],
        needs: Callable[[], Iterable[Privilege]],
        severity: Severity,
    ) -> None:
        """Make a look that takes what ``needs`` names. Where the server refuses it, that is a finding of this
        ``severity`` with the privileges by name."""
        try:
            look()
        except Exception as error:  # noqa: BLE001 - it is told, and the next look is made all the same
            said = describe(error)
            told = Finding(area, Severity.ERROR, subject, said.message, said.next_step)
            if classify(error).kind is ErrorKind.PERMISSION and subject != preflight.DEPLOYMENT:
                user, missing = lacking(self.client, needs())
                if missing:
                    what = (
                        f"cannot be looked at: the MongoDB user {user} lacks {'; '.join(map(str, missing))}"
                    )
                    told = Finding(area, severity, subject, what, grant(missing))
            self.found.append(told)

    def _server(self) -> None:
        kind = "a sharded cluster" if self.client.is_mongos else "a replica set"
        said = f"{kind} of MongoDB {look_server.version(self.client)}"
        self.found.append(Finding(Area.MONGODB, Severity.OK, preflight.DEPLOYMENT, said))
        self.found.append(rules_source.clock(look_server.clock(self.client, self.now)))

    def _privileges(self) -> None:
        """What an engine needs, and what it can do without, each by its name."""
        user, missing = lacking(self.client, self._needed())
        for one in missing:
            self.found.append(_missing(user, one, Severity.ERROR))
        if not missing:
            whose = (
                f"{user} has all that it needs" if user else "access control is off: anybody may do anything"
            )
            self.found.append(Finding(Area.PRIVILEGES, Severity.OK, "needed", whose))
        sizes = sizes_of_documents(self.config)
        oplog = () if self.client.is_mongos else OPLOG
        for one in lacking(self.client, (sizes, *oplog))[1]:
            without = WITHOUT_SIZES if one == sizes else "how long the oplog holds a position is told too low"
            self.found.append(_missing(user, one, Severity.NOTE, f"; without it {without}"))

    def _captured(self) -> list[CollectionFacts]:
        """What is captured, with what is to be said of each, and of names in lists that match nothing."""
        config = self.config
        readings, guardrail = readings_of(self.client, config), Guardrail(config)
        guardrail.look(readings.look())
        for warning in readings.warnings:
            option, _, what = warning.partition(": ")
            remedy = "correct the name, or go on: what comes later is captured then"
            self.found.append(Finding(Area.CAPTURED, Severity.WARNING, option, what, remedy))
        if readings.unasked:
            wanted = Privilege("find", config.scope.database or "", "", "a question without a collection")
            user, missing = lacking(self.client, [wanted])
            what = f"{readings.unasked}: {user} lacks {wanted}" if missing else readings.unasked
            remedy = grant(missing) if missing else ""
            self.found.append(Finding(Area.CAPTURED, Severity.NOTE, "lists", what, remedy))
        for warning in guardrail.warnings:
            self.found.append(Finding(Area.CAPTURED, Severity.WARNING, "guardrail.collections.max", warning))
        seen = look_at_collections(self.client, config.scope)
        user, missing = lacking(self.client, seen.refused)
        for one in missing:
            self.found.append(_missing(user, one, Severity.WARNING))
        images = {"before": config.needs_pre_images, "after": config.needs_post_images}
        lost = lost_without(**images) if any(images.values()) else ""
        said = rules_collections.captured(seen.collections, lost=lost, enable=config.post_images_enable)
        self.found.extend(said)
        return [one for one in seen.collections if one.kind is Kind.COLLECTION]

    def _oplog(self, captured: Sequence[CollectionFacts]) -> None:
        least, known = self.config.oplog_warning_hours, self.known
        looked = look_at_oplog(self.client)
        self.found.extend(rules_source.oplog(looked, known.position, least, captured, known.speed))


def _missing(user: str, one: Privilege, severity: Severity, without: str = "") -> Finding:
    what = f"the MongoDB user {user} lacks {one}{without}"
    return Finding(Area.PRIVILEGES, severity, one.action, what, grant([one]))
