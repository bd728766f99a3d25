"""The port that every signal channel fits, and the values that pass through it.

A channel shows what waits (``poll``), again and again, until the engine has made the outcome durable and says so
(``ack``). Only then does the channel forget, and it remembers that in the engine's own state, not at the sender's side.
So:

- a crash between the two shows the signal once more: nothing is lost, and its id makes the repetition harmless;
- once ``ack`` has returned, no restart shows it again;
- signals come in the order in which they were sent; what is no signal comes as an error, and hides none of the others;
- ``poll`` neither waits for longer than a moment nor fails because of what is at the other end: a channel that is down
  gives nothing, and says why in ``health``. What does pass through are errors of the engine's own storage.

A channel is used by one thread at a time; sending is another matter, and the channel's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from signals.actions import Action
from signals.errors import MalformedSignal, SignalError, shown
from signals.parsing.signal import parse_signal_document
from signals.parsing.values import load_json


class SignalsLost(SignalError):
    """Signals were removed at the sender's side before they could be read. It comes once, in their place."""


class ChannelOptionsRefused(ValueError):
    """Options that no channel can be made from; ``problems`` has all of them."""

    def __init__(self, problems: tuple[OptionProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """An option, what is wrong with it, and its value where it may be shown."""

    option: str
    message: str
    value: str | None = None

    def __str__(self) -> str:
        given = "" if self.value is None else f"={self.value}"
        return f"{self.option}{given}: {self.message}"


@dataclass(frozen=True, slots=True)
class Received:
    """Something that came by a channel: ``action``, or ``error`` that says why there is none.

    ``name`` is the delivery's own within its channel, the same after a restart, and what ``ack`` takes. ``id`` is the
    signal's; where the sender gave none, it is ``name``. ``sent_at_ms`` is milliseconds since the epoch by the sender's
    clock, 0 where the channel has none.
    """

    channel: str
    name: str
    id: str
    action: Action | None
    error: SignalError | None = None
    sent_at_ms: int = 0


class SignalChannel(Protocol):
    """The port."""

    @property
    def name(self) -> str:
        """What ``signal.enabled.channels`` calls it."""

    def poll(self) -> list[Received]:
        """What waits and has not been acknowledged, in order; a part of it where there is very much."""

    def ack(self, *names: str) -> None:
        """Forget these deliveries, by ``Received.name``. One that is forgotten already is fine."""

    def health(self) -> str | None:
        """What keeps the channel from working right now, and what to do; None while nothing does."""

    def close(self) -> None:
        """Let go of files and connections. Nothing else changes; may be called again."""


@runtime_checkable
class DistantChannel(Protocol):
    """What a channel may offer beside the port, if its signals take a while to arrive."""

    def behind(self) -> bool:
        """Whether signals that were sent before may still be on their way: ``run --once`` waits for them. False while
        there is trouble, for that may last."""


class PositionStore(Protocol):
    """Where a channel keeps how far it has been read: small text files in the engine's state.

    ``write_text`` replaces a file whole, and what it wrote outlives a crash.
    """

    def read_text(self, path: str, /) -> str | None:
        """The whole text, or None where there is no such file."""

    def write_text(self, path: str, text: str, /) -> None:
        """Replace the file, or make it."""


@dataclass(frozen=True, slots=True)
class ChannelContext:
    """What a channel is made from: the engine's ``topic.prefix``, its ``signal.*`` options as they were written, and
    where to keep a position. ``store`` paths begin with ``channels/``.
    """

    prefix: str
    store: PositionStore
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be passwords in it


def position_path(channel: str) -> str:
    """The file with a channel's position."""
    return f"channels/{channel}.json"


def received_text(channel: str, name: str, text: bytes | str, what: str) -> Received:
    """The signal in ``text``, a JSON object ``{"id", "type", "data"}``, in UTF-8 where it is bytes.

    ``channel`` and ``name`` are those of `Received`; ``name`` is also the id of a signal without one. Messages begin
    with ``what`` ("the line at byte 7 of …"). Never fails: what is no signal becomes a ``Received`` with an error.
    """
    try:
        document = signal_document(text, what)
    except SignalError as error:
        return Received(channel, name, name, None, error)
    return received_document(channel, name, document)


def received_document(
    channel: str,
    name: str,
    document: Mapping[str, object],
    *,
    default_id: str | None = None,
    sent_at_ms: int = 0,
) -> Received:
    """The signal with the fields of ``document``. Never fails, as `received_text`.

    ``channel`` and ``name`` are those of `Received`. A signal without an id gets ``default_id``, or else ``name``.
    ``sent_at_ms``: milliseconds since the epoch by the sender's clock, 0 where they are unknown.
    """
    default_id = default_id or name
    fields = {key: value for key, value in document.items() if key not in ("id", "_id") or value is not None}
    # Without a field called type, three are taken by position, and one more would spoil that.
    if "type" in fields and not {"id", "_id"} & fields.keys():
        fields["id"] = default_id
        if not {"data", "payload"} & fields.keys():
            fields["data"] = None
    try:
        action = parse_signal_document(fields)
    except SignalError as error:
        given = fields.get("id", fields.get("_id"))
        # By its own id whoever sent it recognises the refusal.
        signal_id = (given.strip() if isinstance(given, str) else "") or default_id
        return Received(channel, name, signal_id, None, error, sent_at_ms)
    return Received(channel, name, action.id, action, None, sent_at_ms)


def signal_document(text: bytes | str, what: str) -> dict[str, object]:
    """The JSON object that the text holds, within the limits of a signal. Raises MalformedSignal, which begins with
    ``what``.
    """
    content = load_json(text, what)
    if not isinstance(content, dict):
        raise MalformedSignal(f"{what} must hold a JSON object, got {shown(content)}")
    return content
