"""The simulated world: one seed decides everything that happens in it.

``World(scenario).run()`` lets writers, requests, faults, and one engine process interleave for a while, then
lets everything come to rest, with the oracles watching. ``crash_at=n`` crashes the process at its n-th
boundary: a world that has run to the end tells how many there are, so that a sweep can try every one of them.
"""

from __future__ import annotations

from random import Random

from snapshotter.core.effects import Discard, Effect, OpenCollection
from snapshotter.core.inputs import Draining, RequestReceived
from snapshotter.core.requests import SnapshotRequest, Wanted
from snapshotter.core.window import WindowId
from streaming.namespaces import Namespace

from .faults import Scenario
from .oracles import Oracles, Violation
from .process import Job, Process
from .sink import Durable, Table
from .source import Collection, Entry, Source

_SETTLING_MAX = 5_000


class World:
    process_class = Process

    def __init__(self, scenario: Scenario, crash_at: int | None = None) -> None:
        self.scenario, self.crash_at = scenario, crash_at
        self.rng = Random(scenario.seed * 7919 + 1)
        self.source = Source([self.new_collection(n) for n in range(scenario.collections)])
        self.tables = {namespace: Table() for namespace in self.source.collections}
        self.sink = Durable()
        self.hidden: set[WindowId] = set()
        self.missing: set[int] = set()
        self.vanished: set[tuple[Namespace, str, int]] = set()
        self.boundaries = self.restarts = self.runs = 0
        self.settling = self.draining = 0
        self.last_fault = ""
        self.faulty = True
        self.faults: dict[str, int] = {}
        self.zombies: list[Job] = []
        self.process: Process | None = None
        for namespace, collection in self.source.collections.items():
            for key in collection.keys:
                if self.rng.random() < scenario.preloaded:
                    self.source.write((namespace, key, "c"))
        self.stream_start = self.source.clock
        self.oracles = Oracles(self)

    def new_collection(self, number: int) -> Collection:
        keys = [f"k{n:02d}" for n in range(self.scenario.keys)]
        ordered = self.rng.random() >= self.scenario.collation
        if not ordered:
            self.rng.shuffle(keys)
        return Collection(Namespace("shop", f"c{number}"), keys, ordered)

    def happens(self, fault: str) -> bool:
        """Whether this fault strikes now."""
        chance = getattr(self.scenario, fault)
        if not self.faulty or not chance or self.rng.random() >= chance:
            return False
        self.last_fault = fault
        self.faults[fault] = self.faults.get(fault, 0) + 1
        return True

    def document_of(self, entry: Entry) -> int | None:
        """The document that comes with an update: its post-image, or what a lookup finds now. A post-image
        that is missing stays so (as a document that was sent to the dead letters does); one looked up in vain
        does not."""
        assert entry.namespace is not None
        if entry.ord in self.missing or self.happens("missing"):
            self.missing.add(entry.ord)
            return None
        if self.scenario.mode != "lookup":
            return entry.doc
        state = self.rng.randint(entry.time, self.source.clock)
        doc = self.source.collections[entry.namespace].state(entry.key, state)
        if doc is None:
            self.vanished.add((entry.namespace, entry.key, entry.time))
        return doc

    def saw(self, process: Process, effect: Effect) -> None:
        """Every effect of the machine passes by here."""
        if isinstance(effect, OpenCollection):
            self.oracles.opened(effect.request_id, effect.namespace)
        elif isinstance(effect, Discard) and effect.landed and process.machine is not None:
            for window in process.landing_windows:
                if window.id == effect.window:
                    self.oracles.chunk_landed(window)

    # Running

    def run(self) -> World:
        asked = sorted(self.rng.randrange(self.scenario.ticks // 2) for _ in range(self.scenario.requests))
        for tick in range(self.scenario.ticks):
            while asked and asked[0] <= tick:
                asked.pop(0)
                self.request()
            self.tick(self.scenario.writes)
        self.faulty = False
        for self.settling in range(_SETTLING_MAX):
            if self.at_rest():
                self.oracles.at_rest()
                return self
            self.tick(0.0)
        raise Violation("O2", f"no rest after {_SETTLING_MAX} steps: {self.process and self.process.machine}")

    def at_rest(self) -> bool:
        process = self.process
        if (
            process is None
            or process.machine is None
            or not process.machine.finished
            or len(process.jobs) > 1
        ):
            return False
        if any(process.machine.progress.request(asked.id) is None for asked in self.sink.journal):
            return False
        end = self.sink.offsets[self.sink.committed][1] if self.sink.committed >= 0 else -1
        return end == self.source.clock and self.sink.committed + 1 == len(self.sink.offsets)

    def tick(self, writes: float) -> None:
        if self.process is None:
            self.start()
        assert self.process is not None
        if self.rng.random() < writes:
            namespace = (
                self.rng.choice(list(self.tables)) if self.scenario.drops or self.scenario.fills else None
            )
            if namespace is not None and self.happens("drops"):
                self.source.empty(namespace)
            elif namespace is not None and self.happens("fills"):
                keys = self.source.collections[namespace].keys
                self.source.empty(namespace, self.rng.sample(keys, self.rng.randint(0, len(keys))))
            else:
                self.source.random_write(self.rng)
            return
        if self.rng.random() < 0.02:
            self.source.tick()
        if self.zombies and self.rng.random() < 0.2:
            self.advance(self.zombies)
        if self.happens("crash"):
            self.crash()
        elif self.happens("restart"):
            self.zombies += [job for job in self.process.jobs[1:] if self.rng.random() < self.scenario.zombie]
            self.crash()
        elif self.happens("drain"):
            self.drain()
        elif self.happens("open_document_lost") and self.process.in_flight():
            self.process.delete_open_document(self.rng.choice(self.process.in_flight()).id)
        else:
            self.work()

    def work(self) -> None:
        """One job of the process goes on to its next boundary; perhaps it gets no further."""
        assert self.process is not None
        self.boundaries += 1
        if self.boundaries == self.crash_at:
            self.crash()
            return
        self.advance(self.process.jobs)

    def advance(self, jobs: list[Job]) -> None:
        job = self.rng.choice(jobs)
        try:
            next(job)
        except StopIteration:
            if job in jobs:
                jobs.remove(job)

    def request(self) -> None:
        """Somebody asks for some of the collections; the journal keeps it, and a running engine hears of
        it."""
        chosen = self.rng.sample(list(self.tables), self.rng.randint(1, len(self.tables)))
        wanted = [Wanted(n, "even" if self.rng.random() < self.scenario.filtered else None) for n in chosen]
        request = SnapshotRequest(f"q{len(self.sink.journal) + 1}", tuple(wanted))
        self.sink.journal.append(request)
        if self.process is not None:
            self.process.step(RequestReceived(request))

    # Lives and deaths

    def start(self) -> None:
        self.runs += 1
        self.process = self.process_class(self, f"run{self.runs}")

    def crash(self) -> None:
        """The process is gone, with all that it held in memory."""
        if self.process is not None:
            self.process.dead = True
            self.process = None
            self.restarts += 1

    def drain(self) -> None:
        """Ask the machine to come to an end, wait until it has, and stop."""
        process = self.process
        assert process is not None
        if process.machine is None:
            return
        process.step(Draining())
        for self.draining in range(_SETTLING_MAX):
            if process.machine.quiet and self.sink.committed + 1 == len(self.sink.offsets):
                break
            self.source.tick()
            self.work()
            if self.process is not process:
                return
        else:
            raise Violation("O2", f"drained for {_SETTLING_MAX} steps: {process.machine.windows}")
        self.crash()
        self.restarts -= 1
