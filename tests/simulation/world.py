"""The simulated world: one seed decides everything that happens in it.

``World(scenario).run()`` lets writers, requests, faults, and one engine process interleave for a while, then
lets everything come to rest, with the oracles watching. ``crash_at=n`` crashes the process at its n-th
boundary: a world that has run to the end tells how many there are, so that a sweep can try every one of them.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from snapshotter.core.machine import Machine
from snapshotter.core.rules.signal_batch import SignalBatch
from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.commands import Command, Pause, Resume, Stop
from snapshotter.core.values.effects import Discard, Effect, OpenCollection, ReadChunk, WriteLow
from snapshotter.core.values.inputs import Draining, SignalsTaken
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.window import WindowId
from streaming.namespaces import Namespace
from tests.support.taken import after

from .faults import Scenario
from .oracles import Oracles, Violation
from .process import Job, Process, bound
from .sink import Durable, Table
from .source import Collection, Entry, Source
from .strangers import Strangers

_SETTLING_MAX = 15_000


class World(Strangers):
    process_class = Process

    def __init__(self, scenario: Scenario, crash_at: int | None = None) -> None:
        self.scenario, self.crash_at = scenario, crash_at
        self.rng = Random(scenario.seed * 7919 + 1)
        self.source = Source([self.new_collection(n) for n in range(scenario.collections)])
        self.tables = {namespace: Table() for namespace in self.source.collections}
        self.captured = frozenset(self.tables)
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
        self.commands: list[Command] = []
        self.waiting: list[SnapshotRequest | Command] = []
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

    def waited(self) -> float | None:
        """How many seconds changes had to wait for a batch, where that counts."""
        return self.rng.uniform(0, 16) if self.scenario.paced else None

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
        elif process.machine is not None and (
            isinstance(effect, WriteLow) or (isinstance(effect, ReadChunk) and effect.exact)
        ):
            self.oracles.window_begins(process.machine, process.machine.windows[effect.window])
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
        self.include_all()
        self.let_all_go_on()
        self.touch_all()
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
            or process.machine.progress.suspended
            or len(process.jobs) > 1
            or self.waiting
        ):
            return False
        if any(process.machine.progress.request(waiting.id) is None for waiting in self.sink.journal):
            return False
        end = self.sink.offsets[self.sink.committed][1] if self.sink.committed >= 0 else -1
        return end == self.source.clock and self.sink.committed + 1 == len(self.sink.offsets)

    def tick(self, writes: float) -> None:
        if self.process is None:
            self.start()
        assert self.process is not None
        self.disturb()
        if self.happens("heal") or not self.faulty:
            self.heal()
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
        if self.waiting and (not self.faulty or self.rng.random() < 0.05):
            self.take()
        elif self.happens("pauses"):
            self.command(Pause)
        elif self.happens("stops"):
            self.command(Stop)
        elif self.waits_for_an_operator() and self.happens("resumes"):
            self.command(Resume)
        elif self.happens("again"):
            self.deliver_again()
        elif self.happens("crash"):
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
        there = [namespace for namespace in self.tables if namespace in self.captured]
        if not there:
            return
        chosen = self.rng.sample(there, self.rng.randint(1, len(there)))
        wanted = tuple(map(self.wanted, chosen))
        urgent = self.rng.choice([-1, 1, 5]) if self.rng.random() < self.scenario.urgent else 0
        alone = self.rng.random() < self.scenario.blocking
        self.ask(wanted, priority=0 if alone else urgent, blocking=alone)

    def ask(self, wanted: tuple[Wanted, ...], *, priority: int = 0, blocking: bool = False) -> str:
        """The id of the request."""
        name = f"q{len(self.sink.asked) + 1}"
        request = SnapshotRequest(name, wanted, priority=priority, blocking=blocking)
        self.sink.asked.append(request)
        if not self.waits(request):
            self.sink.accept(request)
            self.hear(request)
        return name

    def hear(self, request: SnapshotRequest) -> None:
        """The machine hears of a request, if there is one."""
        if self.process is not None and self.machine is not None:
            self.process.step(SignalsTaken((request,), self.machine.controls))

    def wanted(self, namespace: Namespace) -> Wanted:
        """All of a collection, what a filter matches, single ids, or a range of them."""
        if (drawn := self.rng.random()) < self.scenario.filtered:
            return Wanted(namespace, "even", reconcile=drawn < self.scenario.filtered / 3)
        if self.rng.random() >= self.scenario.parts:
            return Wanted(namespace)
        keys, reconcile = self.source.collections[namespace].keys, self.rng.random() < 0.3
        if self.rng.random() < 0.5:
            chosen = self.rng.choices(keys, k=self.rng.randint(1, 5))
            return Wanted(namespace, keys=tuple(map(bound, chosen)), reconcile=reconcile)
        low, high = sorted(self.rng.choices(range(len(keys)), k=2))
        after = bound(keys[low]) if self.rng.random() < 0.8 else None
        upto = bound(keys[high]) if self.rng.random() < 0.8 else None
        return Wanted(namespace, range=KeyRange(after, upto, closed=after is not None), reconcile=reconcile)

    # What operators decide

    def command(self, kind: type[Command]) -> None:
        """Of everything there is, or of some requests (known or not); a stop perhaps of some collections only."""
        ids = [f"q{n}" for n in range(1, len(self.sink.asked) + 2)]
        some = frozenset(self.rng.sample(ids, self.rng.randint(1, len(ids))))
        requests = some if self.rng.random() < 0.5 else None
        command = kind(f"s{len(self.commands) + 1}", requests)
        if isinstance(command, Stop) and self.rng.random() < 0.4:
            command = replace(command, namespaces=frozenset([self.rng.choice(list(self.tables))]))
        if not self.waits(command):
            self.apply(command)

    def waits_for_an_operator(self) -> bool:
        return any(r.paused or r.failed for r in self.known())

    def apply(self, command: Command) -> None:
        """By the machine; without one, by what is durable."""
        machine = self.machine
        controls = machine.controls if machine is not None else self.sink.controls
        known = list(map(controls.applied, self.known()))
        if command not in self.commands:
            self.commands.append(command)
            self.oracles.decided(command, known)
        if self.process is not None and machine is not None:
            self.process.step(SignalsTaken((), after(controls, command, known)))
        else:
            self.sink.decide(after(controls, command, known))

    def waits(self, signal: SnapshotRequest | Command) -> bool:
        """Whether it stays in its channel, perhaps twice, until the engine looks there again."""
        if not self.happens("together"):
            return False
        self.waiting += [signal] * self.rng.choice([1, 1, 2])
        return True

    def take(self) -> None:
        """The engine looks into the channels: all that waits there is made durable at once, and the machine hears of
        it. In between it may crash, and the channels show it all once more."""
        known, controls = self.known(), self.machine.controls if self.machine else self.sink.controls
        batch = SignalBatch(map(controls.applied, known), controls)
        signals, self.waiting = self.waiting, []
        for signal in signals:
            if batch.digest_of(signal.id) is not None or signal.id in self.sink.remembered:
                continue
            if isinstance(signal, SnapshotRequest):
                batch.accept(signal)
                known.append(RequestProgress.accepted(signal))
                continue
            known = list(map(controls.applied, known))
            self.commands.append(signal)
            self.oracles.decided(signal, known)
            controls = after(controls, signal, known)
            batch.apply(signal)
        taken = SignalsTaken(tuple(batch.new), batch.controls)
        self.sink.accept(*taken.requests)
        self.sink.decide(taken.controls)
        self.boundaries += 1
        if self.boundaries == self.crash_at or self.happens("crash"):
            sink = self.sink
            self.crash()
            if (
                self.scenario.kept and self.sink is sink
            ):  # what is forgotten by then would be carried out again
                self.waiting = signals
        elif self.process is not None:
            self.process.step(taken)

    @property
    def machine(self) -> Machine | None:
        return self.process.machine if self.process is not None else None

    def known(self) -> list[RequestProgress]:
        """The requests that exist: for the machine, or without one."""
        return self.sink.known() if self.machine is None else list(self.machine.progress.requests)

    def deliver_again(self) -> None:
        """A channel shows a signal once more: one that was applied, or a request that is still known."""
        known = {request.id for request in self.known()}
        asked = [request for request in self.sink.asked if request.id in known]
        chosen = self.rng.choice([*self.commands, *asked, None])
        if isinstance(chosen, SnapshotRequest):
            self.hear(chosen)
        elif chosen is not None:
            self.apply(chosen)

    def let_all_go_on(self) -> None:
        """Operators resume everything, perhaps also what has failed: it has to come to its end."""
        say = self.waiting.append if self.waiting else self.apply
        say(Resume("last"))
        if self.commands and self.rng.random() < 0.5:
            say(Resume("once more", frozenset(r.id for r in self.sink.asked)))

    # Lives and deaths

    def start(self) -> None:
        self.runs += 1
        self.change_what_is_captured()
        self.process = self.process_class(self, f"run{self.runs}")

    def crash(self) -> None:
        """The process is gone, with all that it held in memory."""
        if self.process is not None:
            self.process.dead = True
            self.process = None
            self.restarts += 1
            if self.happens("lost"):
                self.lose_state()

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
