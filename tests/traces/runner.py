"""Plays a trace: commands to a bare machine, each followed by everything that the machine said.

A trace begins with comments (``#``) that tell the scenario. A line ``> command`` is played; the indented
lines below it are the answer. Windows are numbers (of this run) or ``run/number``; times are numbers;
``name=value`` are options.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from snapshotter.core.machine import Machine
from snapshotter.core.rules import queue
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.chunks import Bound, KeyList, KeyRange
from snapshotter.core.values.commands import Pause, Resume, Stop
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.window import Edge, WatermarkObservation, WindowId, WindowMisuse
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.taken import taken


def at(text: str) -> ClusterTime:
    return ClusterTime(1, int(text))


def bound(key: str) -> Bound:
    return Bound(key.encode(), key)


class Trace:
    """One machine after another: ``restart`` begins a new run from what was saved."""

    def __init__(self) -> None:
        self.saved: dict[int, Progress] = {}
        self.journal = Controls()
        self.options: dict[str, str] = {}
        self.machine = self.new_machine("a", Progress())

    def play(self, text: str) -> str:
        """The same text with the answers that the machine gives now."""
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith("  "):
                continue
            lines.append(line)
            if line.startswith("> "):
                lines += [f"  {said}" for said in self.answer(line[2:].split())]
        return "\n".join(lines) + "\n"

    def answer(self, words: list[str]) -> Iterator[str]:
        command, *rest = words
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        plain = [word for word in rest if "=" not in word]
        try:
            said = list(getattr(self, f"do_{command}")(*plain, **options))
        except (ValueError, WindowMisuse) as error:
            said = [f"refused: {error}"]
        yield from said or ["(nothing)"]

    # Commands

    def new_machine(self, run: str, progress: Progress) -> Machine:
        limits = Limits(
            chunk_docs=int(self.options.get("chunk", "2")),
            windows_in_flight=int(self.options.get("windows", "1")),
            rows_in_flight=1,
            target_lag_seconds=None,
            attempts=int(self.options.get("attempts", "3")),
            commit_rows_target=int(self.options.get("commit", "1000")),
            reread_ids=int(self.options.get("ids", "1000")),
        )
        in_stream = "cluster_time" not in self.options.get("strategy", "")
        return Machine(run, progress, limits, in_stream=in_stream, controls=self.journal)

    def do_machine(self, **options: str) -> Iterator[str]:
        self.options = options
        self.machine = self.new_machine("a", Progress())
        yield "run a"

    def do_restart(self, run: str, *, batch: str) -> Iterator[str]:
        """A new run, handed this batch: it starts from the newest state saved for one before it."""
        newest = max((n for n in self.saved if n < int(batch)), default=None)
        self.machine = self.new_machine(run, Progress() if newest is None else self.saved[newest])
        yield f"run {run}, from " + ("nothing" if newest is None else f"the state of batch {newest}")
        yield from self.do_show()

    def do_request(self, name: str, *wanted: str, priority: str = "0", blocking: str = "no") -> Iterator[str]:
        """``shop.a``, ``shop.a?filter``, ``shop.a{k1,k2}`` (single ids), ``shop.a[k1,k4]`` (a range; ends may be left
        out), ``shop.a!`` (with reconcile)."""
        what = tuple(map(self.wanted, wanted))
        request = SnapshotRequest(name, what, priority=int(priority), blocking=blocking == "yes")
        yield from self.step(taken(self.machine, request))

    @staticmethod
    def wanted(word: str) -> Wanted:
        if word.endswith("}"):
            where, _, keys = word[:-1].partition("{")
            return Wanted(Namespace.parse(where), keys=tuple(map(bound, keys.split(","))))
        if word.endswith("]"):
            where, _, ends = word[:-1].partition("[")
            low, high = (bound(end) if end else None for end in ends.split(","))
            return Wanted(Namespace.parse(where), range=KeyRange(low, high, closed=low is not None))
        if word.endswith("!"):
            return Wanted(Namespace.parse(word[:-1]), reconcile=True)
        where, *filters = word.split("?")
        return Wanted(Namespace.parse(where), filters[0] if filters else None)

    def do_stop(self, name: str, *where: str) -> Iterator[str]:
        """``stop s1``: everything; ``stop s1 q1 shop.a``: these requests, or these collections."""
        requests, namespaces = (
            frozenset(w for w in where if ("." in w) is dotted) for dotted in (False, True)
        )
        collections = frozenset(map(Namespace.parse, namespaces))
        yield from self.step(taken(self.machine, Stop(name, requests or None, collections or None)))

    def do_pause(self, name: str, *requests: str) -> Iterator[str]:
        yield from self.step(taken(self.machine, Pause(name, frozenset(requests) or None)))

    def do_resume(self, name: str, *requests: str) -> Iterator[str]:
        yield from self.step(taken(self.machine, Resume(name, frozenset(requests) or None)))

    def do_opened(self, name: str, where: str, *, last: str, ordered: str = "yes") -> Iterator[str]:
        end = None if last == "nothing" else bound(last)
        namespace = Namespace.parse(where)
        yield from self.step(inp.CollectionOpened(name, namespace, end, ordered_keys=ordered == "yes"))

    def do_refused(self, name: str, where: str, *error: str) -> Iterator[str]:
        yield from self.step(inp.CollectionFailed(name, Namespace.parse(where), " ".join(error)))

    def do_planned(self, name: str, where: str, *ends: str) -> Iterator[str]:
        bounds = tuple(bound(end) for end in ends if end != "exhausted")
        task = queue.task_of(self.machine.progress, name, Namespace.parse(where))
        planned = inp.ChunksPlanned(name, task.namespace, bounds, "exhausted" in ends, task.resumed)
        yield from self.step(planned)

    def do_low(self, window: str, time: str) -> Iterator[str]:
        yield from self.step(inp.LowWritten(self.window(window), at(time)))

    def do_read(self, window: str, time: str, *, rows: str = "2") -> Iterator[str]:
        yield from self.step(inp.ChunkRead(self.window(window), at(time), int(rows)))

    def do_high(self, window: str, time: str) -> Iterator[str]:
        yield from self.step(inp.HighWritten(self.window(window), at(time)))

    def do_fail(self, window: str, *error: str) -> Iterator[str]:
        definite = "definite" in error
        message = " ".join(word for word in error if word != "definite")
        yield from self.step(inp.WindowFailed(self.window(window), message, definite))

    def do_batch(self, number: str, end: str, *seen: str, **told: str) -> Iterator[str]:
        """``low:1@5``, ``high:1@7``, ``lost:1@6`` are watermarks seen; options say what the engine found out."""
        observations = []
        for word in seen:
            if ":" in word:
                edge, _, where = word.partition(":")
                window, _, time = where.partition("@")
                observations.append(WatermarkObservation(self.window(window), Edge(edge), at(time)))
        yield from self.step(
            inp.BatchArrived(
                int(number),
                self.machine.in_flight.floor,
                at(end),
                tuple(observations),
                incomplete={n: tuple(map(bound, keys)) for n, keys in self.keys(told.get("incomplete"))},
                empty_tables=frozenset(n for n, _ in self.keys(told.get("empty"))),
                recorded=frozenset(n for n, _ in self.keys(told.get("recorded"))),
                landed_upto={n: keys[0] for n, keys in self.keys(told.get("landed_upto"))},
                behind="behind" in seen,
            )
        )

    def do_landed(self, number: str, *outcomes: str) -> Iterator[str]:
        """``1:2/0``: window 1 landed two READs, and none was superseded."""
        parsed = {}
        for word in outcomes:
            window, _, counts = word.partition(":")
            kept, _, superseded = counts.partition("/")
            parsed[self.window(window)] = inp.Outcome(int(kept), int(superseded))
        yield from self.step(inp.BatchLanded(int(number), parsed))

    def do_buffers_lost(self, number: str, *windows: str) -> Iterator[str]:
        yield from self.step(inp.BuffersLost(int(number), frozenset(map(self.window, windows))))

    def do_suspend(self, where: str, *why: str, batch: str = "", repair: str = "no") -> Iterator[str]:
        """Something is wrong with its table; with ``batch`` the landing of that batch has met it."""
        told = "altered", " ".join(why), "read it again", int(batch) if batch else None, repair == "yes"
        yield from self.step(inp.CollectionSuspended(Namespace.parse(where), *told))

    def do_drain(self) -> Iterator[str]:
        yield from self.step(inp.Draining())

    def do_show(self) -> Iterator[str]:
        machine = self.machine
        for request in machine.progress.requests:
            for task in request.tasks:
                frontier = f"up to {task.frontier.key}" if task.frontier else "nothing yet"
                first = ", first load" if task.first_load else ""
                error = f": {task.error}" if task.error else ""
                paused = ", paused" if request.paused else ""
                paused += ", suspended" if machine.progress.rests(request, task) else ""
                yield f"{request.id} {task.namespace} is {task.state}, {frontier}{first}{paused}{error}"
        for namespace, suspension in machine.progress.suspended.items():
            yield f"suspended: {namespace} since {suspension.since.i}: {suspension.error}"
        for namespace, again in machine.progress.rereads:
            yield f"to read again: {namespace} {again.key}"
        for window in machine.windows.values():
            yield f"window {window.id} {target(window.target)} is {window.state}"
        yield ("quiet" if machine.quiet else "not quiet") + (", the stream waits" if machine.holding else "")

    def do_finished(self) -> Iterator[str]:
        yield "yes" if self.machine.finished else "no"

    # The machine

    def window(self, text: str) -> WindowId:
        run, _, number = text.rpartition("/")
        return WindowId(run or self.machine.run, int(number))

    @staticmethod
    def keys(told: str | None) -> list[tuple[Namespace, list[str]]]:
        """``shop.a:k1,k2;shop.b`` -> collections with keys."""
        parsed = [word.partition(":") for word in told.split(";")] if told else []
        return [(Namespace.parse(name), keys.split(",") if keys else []) for name, _, keys in parsed]

    def step(self, happened: inp.Input) -> Iterator[str]:
        for effect in self.machine.step(happened):
            if isinstance(effect, eff.SaveProgress):
                self.saved[effect.progress.batch_id] = effect.progress
            elif isinstance(effect, eff.SaveControls):
                self.journal = effect.controls
            yield from say(effect)


def target(value: KeyRange | KeyList) -> str:
    if isinstance(value, KeyList):
        return "{" + ", ".join(b.key for b in value.ids) + "}"
    left = "[" if value.closed else "("
    return f"{left}{value.after.key if value.after else '-'}, {value.upto.key if value.upto else '-'}]"


def say(effect: eff.Effect) -> Iterator[str]:
    """One line an effect, more for a landing."""
    match effect:
        case eff.OpenCollection():
            within = f" within {target(effect.within)}" if effect.within else ""
            yield f"open {effect.request_id} {effect.namespace}{within}, at or after {effect.after_time.i}"
        case eff.PlanChunks():
            ends = target(KeyRange(effect.after, effect.upto, effect.closed))
            yield f"plan {effect.request_id} {effect.namespace} {ends}: {effect.count} of {effect.docs}"
        case eff.WriteLow():
            yield f"write low {effect.window} ({effect.namespace})"
        case eff.ReadChunk():
            filtered = f" where {effect.filter}" if effect.filter else ""
            when = "as of" if effect.exact else "at or after"
            yield f"read {effect.window} {target(effect.target)}{filtered}, {when} {effect.after_time.i}"
        case eff.WriteHigh():
            yield f"write high {effect.window}, at or after {effect.not_before.i}"
        case eff.LandBatch():
            yield from say_landing(effect)
        case eff.SaveProgress():
            yield f"save the state of batch {effect.progress.batch_id}, position {effect.progress.position.i}"
        case eff.SaveControls():
            yield f"journal: {journalled(effect.controls)}"
        case eff.Announce():
            words: list[Any] = [effect.kind, effect.request_id, effect.namespace, effect.detail]
            yield "announce " + " ".join(str(word) for word in words if word)
        case eff.Discard():
            yield f"discard {effect.window}" + (
                ", landed" if effect.landed else f": {effect.why}" if effect.why else ""
            )
        case eff.MakeBatch():
            yield "make a batch"


def journalled(controls: Controls) -> str:
    """What operators have decided, without what a saved state shows already."""
    stopped = [f"{request}/{namespace}" for request, namespace in sorted(controls.stopped)]
    again = [f"{i}/{n} x{count}" for (i, n), count in sorted(controls.resumed.items())]
    told = {"paused": sorted(controls.paused), "stopped": stopped, "goes on": again}
    return "; ".join(f"{what} {', '.join(names)}" for what, names in told.items() if names) or "nothing"


def say_landing(landing: eff.LandBatch) -> Iterator[str]:
    keep = f", keep keys of {', '.join(sorted(map(str, landing.keep)))}" if landing.keep else ""
    keep += f", without {', '.join(sorted(map(str, landing.left_out)))}" if landing.left_out else ""
    yield f"land batch {landing.batch_id} up to {landing.end.i}{keep}"
    for closing in landing.closings:
        new = ", proven new" if closing.proven_new else ""
        yield f"  close {closing.window.id} {target(closing.window.target)}, low {closing.low.i}{new}"
    for namespace, unreached in landing.unreached.items():
        yield f"  not yet: {namespace} ({unreached.after or '-'}, {unreached.upto}]"
