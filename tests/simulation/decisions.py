"""A plain model of what operators have decided (oracle O8) and of what they were told (O7)."""

from __future__ import annotations

from snapshotter.core.machine import Machine
from snapshotter.core.values.commands import Command, Pause, Resume, Stop
from snapshotter.core.values.effects import Announce, LandBatch
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.window import Window
from streaming.namespaces import Namespace


class Violation(AssertionError):
    """``oracle`` is the one that noticed."""

    def __init__(self, oracle: str, message: str) -> None:
        super().__init__(f"{oracle}: {message}")
        self.oracle = oracle


class Decisions:
    def __init__(self) -> None:
        self.paused: set[str] = set()
        self.stopped: set[tuple[str, Namespace]] = set()
        self.resumed = 0
        self.going_on: dict[tuple[str, Namespace], int] = {}
        self.durable = Progress()
        self.completed: set[str] = set()
        self.over: dict[str, RequestProgress] = {}

    @property
    def machine(self) -> Machine:
        raise NotImplementedError

    def decided(self, command: Command, known: list[RequestProgress]) -> None:
        """A command comes for the first time; these requests exist."""
        meant = [r for r in known if command.requests is None or r.id in command.requests]
        match command:
            case Pause():
                self.paused |= {r.id for r in meant if not r.ended}
            case Resume():
                # Also one that nobody knows just now, for the batch that made it is replayed.
                self.paused -= self.paused if command.requests is None else command.requests
                self.resumed += sum(r.failed for r in meant)
                failed = ((r.id, t) for r in meant for t in r.tasks if t.state is TaskState.FAILED)
                for request_id, task in failed if command.requests is not None else ():
                    self.going_on[request_id, task.namespace] = task.resumed + 1
            case Stop(namespaces=only):
                # What keeps a table right is not an operator's to end.
                live = ((r.id, t) for r in meant if r.origin.stops for t in r.tasks if not t.ended)
                self.stopped |= {(i, t.namespace) for i, t in live if only is None or t.namespace in only}

    def started(self, machine: Machine) -> None:
        """A run begins: nothing that was decided is forgotten or undone."""
        for request in machine.progress.requests:
            if not request.ended and request.paused != (request.id in self.paused):
                raise Violation("O8", f"paused are {self.paused}, but the run begins with {request}")
            for task in request.tasks:
                told = self.going_on.get((request.id, task.namespace), 0)
                if task.state is TaskState.FAILED and task.resumed < told:
                    raise Violation("O8", f"{request.id} was to go on, but the run begins with {task}")
                if (request.id, task.namespace) in self.stopped and not task.ended:
                    raise Violation("O8", f"{request.id} was stopped, but the run begins with {task}")

    def window_begins(self, machine: Machine, window: Window) -> None:
        if window.request_id is None:
            return
        if window.request_id in self.paused:
            raise Violation("O8", f"{window} begins, but its request is paused")
        mine = machine.progress.request(window.request_id)
        assert mine is not None
        rests = machine.progress.rests
        blocking = (r for r in machine.progress.requests if r.blocking and not r.paused and not r.ended)
        alone = [r.id for r in blocking if not machine.progress.resting(r)]
        if alone and mine.id != alone[0]:
            raise Violation("O8", f"{window} begins, but {alone[0]} is blocking")
        for request in machine.progress.requests:
            if mine.blocking:
                break  # whatever the priority of others
            task = request.task(window.namespace)
            waits = task is not None and not task.ended and not request.paused and not rests(request, task)
            if waits and request.priority > mine.priority:
                raise Violation("O8", f"{window} begins, but {request.id} is more urgent")

    def only_what_was_stopped_is(self, saved: Progress) -> None:
        for request in saved.requests:
            for task in request.tasks:
                if task.state is TaskState.STOPPED and (request.id, task.namespace) not in self.stopped:
                    raise Violation("O8", f"{request.id} is stopped, but nobody asked for that: {task}")

    def nothing_stopped_lands(self, landing: LandBatch) -> None:
        for closing in landing.closings:
            if (closing.window.request_id, closing.window.namespace) in self.stopped:
                raise Violation("O8", f"{closing} is to land, but it was stopped")

    def announced(self, announce: Announce) -> None:
        if announce.kind == "SUSPENDED":
            if announce.namespace not in self.durable.left_out:
                raise Violation("O7", f"{announce}, but saved is {self.durable.suspended}")
            return
        request = self.durable.request(announce.request_id)
        if request is None:
            raise Violation("O7", f"{announce}, but the request is not saved")
        assert request is not None
        task = next((t for t in request.tasks if t.namespace == announce.namespace), None)
        states = {t.state for t in request.tasks}
        truth = {
            "STARTED": states != {TaskState.WAITING} or any(t.resumed for t in request.tasks),
            "PAUSED": request.paused,
            "RESUMED": not request.paused and not request.ended,
            "COMPLETED": states == {TaskState.DONE} and announce.request_id not in self.completed,
            "STOPPED": states <= {TaskState.DONE, TaskState.STOPPED} and TaskState.STOPPED in states,
            "ABORTED": TaskState.STOPPED in states,
            "TABLE_SCAN_COMPLETED": task is not None and task.state is TaskState.DONE,
            "FAILED": (
                task.state is TaskState.FAILED if task is not None else request.ended and request.failed
            ),
            "IN_PROGRESS": task is not None and task.chunks > 0,
        }
        if not truth[announce.kind]:
            raise Violation("O7", f"{announce}, but saved is {request}")
        if announce.kind == "COMPLETED":
            self.completed.add(announce.request_id)

    def opened(self, request_id: str, namespace: Namespace) -> None:
        request = self.durable.request(request_id)
        task = request.task(namespace) if request is not None else None
        if task is None and request_id in self.over:
            task = self.over[request_id].task(namespace)
        if task is not None and task.ended and not self.goes_on(request_id, task):
            raise Violation("O7", f"{request_id} is opened again: {task}")

    def goes_on(self, request_id: str, saved: TaskProgress) -> bool:
        """An operator resumed it after its failure."""
        now = self.machine.progress.request(request_id)
        task = now.task(saved.namespace) if now is not None else None
        return saved.state is TaskState.FAILED and task is not None and task.resumed > saved.resumed
