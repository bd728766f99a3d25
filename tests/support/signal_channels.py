"""The signal channels as a test sees them: put something in at one end, open the other, and open it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Protocol

from signals.actions import Action, Log, fields_of
from signals.channel import Received, SignalChannel, received_text
from signals.channels.file_channel import FileChannel
from signals.channels.inbox_channel import InboxChannel
from signals.channels.kafka_channel import KafkaChannel
from signals.channels.kafka_options import KafkaSignalOptions
from signals.channels.plugins import ForeignChannel
from signals.channels.process_channel import InProcessChannel
from snapshotter.state.storage import MemoryStorage
from snapshotter.testing.kafka import KafkaBroker
from snapshotter.testing.processes import wait_until

PREFIX = "shop"


def log(number: int) -> Log:
    """A signal that is told from others by its number; ids sort as they were sent."""
    return Log(f"s{number:05}", f"message {number}")


def text_of(action: Action) -> bytes:
    """It as the channels carry it."""
    signal_id, kind, data = fields_of(action)
    return json.dumps({"id": signal_id, "type": kind, "data": data}).encode()


class Rig(Protocol):
    """A channel's two ends."""

    def send(self, *actions: Action) -> None: ...

    def send_nonsense(self) -> int:
        """Send what is no signal; says how many of that."""

    def open(self) -> SignalChannel:
        """The engine's end, as a start of the engine makes it."""


NONSENSE = (b"{", b"[]", b"\xff\xfe", b'{"id": "x", "type": "no-such"}', b"[" * 100_000, b'{"type": NaN}')


class InboxRig:
    def __init__(self, files: MemoryStorage | None = None) -> None:
        self._files = files or MemoryStorage()
        self._times = count(1)

    def send(self, *actions: Action) -> None:
        sender = InboxChannel(self._files, now_ms=lambda: next(self._times))
        for action in actions:
            sender.send(action)

    def send_nonsense(self) -> int:
        texts = [text for text in NONSENSE if text.isascii()]
        for number, text in enumerate(texts):
            self._files.write_text(f"inbox/nonsense-{number}.json", text.decode())
        return len(texts)

    def open(self) -> SignalChannel:
        return InboxChannel(self._files)


class FileRig:
    def __init__(self, folder: Path, store: MemoryStorage | None = None) -> None:
        self.path = folder / "signals.jsonl"
        self.store = store or MemoryStorage()

    def send(self, *actions: Action) -> None:
        self.append(*map(text_of, actions))

    def send_nonsense(self) -> int:
        self.append(*NONSENSE)
        return len(NONSENSE)

    def append(self, *lines: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))

    def open(self) -> FileChannel:
        return FileChannel(self.path, self.store)


class KafkaRig:
    def __init__(self, kafka: KafkaBroker, topic: str, store: MemoryStorage | None = None) -> None:
        self.kafka, self.topic = kafka, topic
        self.store = store or MemoryStorage()

    def send(self, *actions: Action) -> None:
        self.kafka.send(self.topic, PREFIX, *map(text_of, actions))

    def send_nonsense(self) -> int:
        self.kafka.send(self.topic, PREFIX, *NONSENSE, None)
        return len(NONSENSE) + 1

    def open(self, bootstrap: str | None = None, **options: str) -> KafkaChannel:
        """With further options of the client, dots written as underscores."""
        servers = bootstrap or self.kafka.bootstrap
        given = {"signal.kafka.bootstrap.servers": servers, "signal.kafka.topic": self.topic}
        quick = {"signal.kafka.poll.timeout.ms": "20"}
        named = {f"signal.consumer.{name.replace('_', '.')}": text for name, text in options.items()}
        return KafkaChannel(KafkaSignalOptions.parse({**given, **quick, **named}, PREFIX), self.store)


class InProcessRig:
    """The program goes on when its engine is started anew, and so does the queue."""

    def __init__(self) -> None:
        self._channel = InProcessChannel()

    def send(self, *actions: Action) -> None:
        for action in actions:
            self._channel.send(action)

    def send_nonsense(self) -> int:
        self._channel.send_document({})
        self._channel.send_document({"id": "x", "type": "no-such"})
        return 2

    def open(self) -> SignalChannel:
        return self._channel


class SentAgainRig(InProcessRig):
    """The program goes down with its engine, and what waits in its queue with it. Whoever sent by it knows that, and
    sends all of it again under the same ids, not knowing what has been handled."""

    def __init__(self) -> None:
        super().__init__()
        self._sent: list[Action] = []

    def send(self, *actions: Action) -> None:
        self._sent += actions
        super().send(*actions)

    def open(self) -> SignalChannel:
        self._channel = InProcessChannel()
        super().send(*self._sent)
        return super().open()


class ListChannel:
    """A channel of somebody else's: a queue outside of the engine, which itself remembers what was acknowledged. Where
    it is ``shaky``, every other acknowledgement fails."""

    name = "list"

    def __init__(self, waiting: dict[str, bytes], shaky: bool) -> None:
        self._waiting = waiting
        self._shaky = shaky
        self._acks = count()

    def poll(self) -> list[Received]:
        return [received_text(self.name, name, text, name) for name, text in self._waiting.items()]

    def ack(self, *names: str) -> None:
        if self._shaky and next(self._acks) % 2 == 0:
            raise ConnectionError("the queue is away")
        for name in names:
            self._waiting.pop(name, None)

    def health(self) -> str | None:
        return None

    def close(self) -> None:
        """Nothing is held."""


class CustomRig:
    """A channel that another package brings, as the engine has it."""

    def __init__(self, shaky: bool = False) -> None:
        self._shaky = shaky
        self._waiting: dict[str, bytes] = {}
        self._numbers = count(1)

    def send(self, *actions: Action) -> None:
        for action in actions:
            self._waiting[f"list/{next(self._numbers)}"] = text_of(action)

    def send_nonsense(self) -> int:
        for text in NONSENSE:
            self._waiting[f"list/{next(self._numbers)}"] = text
        return len(NONSENSE)

    def open(self) -> SignalChannel:
        return ForeignChannel(ListChannel.name, ListChannel(self._waiting, self._shaky))


def polled(channel: SignalChannel, enough: int = 1) -> list[Received]:
    """What the channel shows, once that is ``enough``; what came by then, is shown."""

    def shown() -> list[Received] | None:
        found = channel.poll()
        return found if len(found) >= enough else None

    return wait_until(shown, f"{enough} signals by {channel.name} ({channel.health() or 'well'})", every=0.01)


def numbers(found: list[Received]) -> list[int]:
    """Which of ``log``'s signals these are."""
    return [int(item.id[1:]) for item in found if item.action is not None]


def ack_all(channel: SignalChannel, found: list[Received]) -> None:
    channel.ack(*(item.name for item in found))


def healthy(channel: SignalChannel, check: Callable[[str | None], bool]) -> str | None:
    """Poll until the channel's health is as wanted; returns it."""

    def reached() -> tuple[str | None] | None:
        channel.poll()
        return (channel.health(),) if check(channel.health()) else None

    return wait_until(reached, f"another health of {channel.name} than {channel.health()}")[0]
