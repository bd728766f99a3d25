"""Signals from a Kafka topic of one partition: messages whose key is ``topic.prefix``.

The position is kept in the engine's state, nothing is committed to Kafka, and no consumer group is joined: the one
partition is assigned. So a restart neither loses a signal nor repeats one, whatever the broker remembers.

The broker may be down at any time, from the start on: librdkafka reconnects in threads of its own, looking the topic
up (``kafka_position``) runs in another, and ``poll`` takes what has arrived. Messages with another key are somebody
else's, and only counted. Where retention has removed signals that were not read, reading goes on at the oldest that is
left, and a ``SignalsLost`` comes in their place.

A delivery is named ``<topic>/0/<offset>``, which is also the id of a signal without one. In a topic that was made anew
offsets come back; there the name has the number of the making, ``<topic>/0/<offset>#1``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from signals.channels.channel import (
    ChannelContext,
    ChannelOptionsRefused,
    OptionProblem,
    PositionStore,
    Received,
    SignalsLost,
    position_path,
    received_text,
)
from signals.channels.deliveries import Deliveries
from signals.channels.kafka_options import CONSUMER, KafkaSignalOptions
from signals.channels.kafka_position import PARTITION, KafkaPosition, Start, TopicUnusable, find_start
from signals.errors import MalformedSignal
from signals.kafka_delivery import CLIENT_LOG

NAME = "kafka"
MAX_OPEN = 10_000
_AT_ONCE = 1_000
RETRY_SECONDS = 1.0
CHECK_SECONDS = 300.0
_UNANSWERED = "has not answered yet"


def kafka_channel(context: ChannelContext) -> KafkaChannel:
    """The channel that ``signal.kafka.*`` and ``signal.consumer.*`` describe. Raises ChannelOptionsRefused."""
    return KafkaChannel(KafkaSignalOptions.parse(context.options, context.prefix), context.store)


class KafkaChannel:
    """The topic that ``options`` name; ``store`` keeps its position. Making the channel does not contact the broker.

    ``clock``: seconds that never go back, by which looks at the topic are spaced."""

    name = NAME

    def __init__(
        self, options: KafkaSignalOptions, store: PositionStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.ignored = 0
        """Messages with another key, since the start."""
        self._options = options
        self._store = store
        self._clock = clock
        self._client = {**_client(options), "error_cb": self._complain}
        self._complaint: str | None = None  # the client's own, until a look at the topic has succeeded
        self._trouble: str | None = _UNANSWERED
        self._deliveries: Deliveries[KafkaPosition] | None = None
        self._next: KafkaPosition | None = None  # what is read next; what is acknowledged lies before
        self._reading = self._at_end = False
        self._looking: tuple[KafkaPosition | None, Future[Start]] | None = None
        self._looked_at = float("-inf")
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="signal-kafka")
        self._consumer = _consumer(self._client)

    def poll(self) -> list[Received]:
        """Messages that have not been acknowledged, in order."""
        self._look()
        if self._reading:
            self._read()
        return [] if self._deliveries is None else self._deliveries.open()

    def ack(self, *names: str) -> None:
        """Forget these messages, and save how far all are forgotten."""
        if self._deliveries is not None and self._deliveries.ack(names):
            self._save(self._deliveries.position)

    def health(self) -> str | None:
        """What is wrong with the broker or the topic."""
        # Why it cannot connect says more than that there is no answer.
        trouble = self._complaint or self._trouble
        return trouble and f"Kafka at {self._options.bootstrap_servers}: {trouble}"

    def behind(self) -> bool:
        """Whether the end of the topic has not been reached; False while the broker or the topic is in trouble."""
        if self._reading:
            return not self._at_end
        return self._complaint is None and self._trouble == _UNANSWERED

    def close(self) -> None:
        """Leave the broker. A look at the topic that is under way ends by itself."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._consumer.close()

    # Where to begin, and whether all is still well

    def _look(self) -> None:
        """Look the topic up on another thread: at first, while there is trouble, and now and then."""
        if self._looking is None:
            pause = CHECK_SECONDS if self._reading and self.health() is None else RETRY_SECONDS
            if self._clock() - self._looked_at < pause:
                return
            work = self._worker.submit(find_start, self._client, self._options, self._next or self._stored())
            self._looking = (self._next, work)
        asked, work = self._looking
        if not work.done():
            return
        self._looking, self._looked_at = None, self._clock()
        from confluent_kafka import KafkaException

        try:
            start = work.result()
        except TopicUnusable as error:
            self._trouble, self._complaint = str(error), None
            self._give_up_reading()
            return
        except KafkaException as error:  # the consumer reconnects by itself
            self._trouble = _said(error)
            return
        if asked != self._next:  # messages have come meanwhile: the answer is to an old question
            self._looked_at = self._looked_at if self._reading else float("-inf")
            return
        self._trouble = self._complaint = None
        if not (self._reading and asked is not None and start == Start(asked)):
            self._begin(start)

    def _stored(self) -> KafkaPosition | None:
        text = self._store.read_text(position_path(NAME))
        return None if text is None else KafkaPosition.from_json(text, self._options.topic)

    def _save(self, position: KafkaPosition) -> None:
        self._store.write_text(position_path(NAME), position.to_json(self._options.topic))

    def _begin(self, start: Start) -> None:
        from confluent_kafka import TopicPartition

        if self._deliveries is None:
            stored = self._stored()
            if stored is None:
                self._save(start.position)  # or the end of the topic would be another one after a restart
            self._deliveries = Deliveries(stored or start.position)
        if start.lost is None:
            self._deliveries.pass_over(start.position)
        else:
            self._deliveries.show(self._loss(*start.lost), start.position)
        self._next = start.position
        self._consumer.assign([TopicPartition(self._options.topic, PARTITION, start.position.next)])
        self._reading, self._at_end = True, False

    def _loss(self, since: int, until: int) -> Received:
        name = f"{self._options.topic}/{PARTITION}/{since}..{until}"
        error = SignalsLost(
            f"the topic {self._options.topic!r} has lost its offsets {since} to {until - 1} before they were read "
            "(retention, or a broker that lost data). If signals were there, send them again; keep them for longer by "
            "the topic's retention.ms."
        )
        return Received(NAME, name, name, None, error)

    def _give_up_reading(self) -> None:
        if self._reading:
            self._consumer.unassign()
            self._reading = False

    # Messages

    def _read(self) -> None:
        from confluent_kafka import KafkaError

        assert self._deliveries is not None
        room = MAX_OPEN - len(self._deliveries)
        if room <= 0:
            return
        seconds = self._options.poll_timeout_ms / 1000
        first = self._consumer.poll(seconds)  # `consume` would wait to have as many as it was asked for
        messages = [] if first is None else [first, *self._consumer.consume(min(_AT_ONCE, room), 0)]
        for message in messages:
            if message.error() is not None:
                # The client says so once it has read all there is, also where the last offsets are no messages.
                if message.error().code() == KafkaError._PARTITION_EOF:
                    self._at_end = True
                    continue
                self._trouble = message.error().str()
                self._give_up_reading()  # where to go on is looked up
                return
            self._take(self._deliveries, message)

    def _take(self, deliveries: Deliveries[KafkaPosition], message: Any) -> None:
        assert self._next is not None
        here = replace(self._next, next=message.offset())
        self._next = replace(here, next=message.offset() + 1)
        if message.key() != self._options.key.encode():
            self.ignored += 1
            deliveries.pass_over(self._next)
            return
        deliveries.show(_received(self._delivery(here), message), self._next)

    def _delivery(self, here: KafkaPosition) -> str:
        name = f"{self._options.topic}/{PARTITION}/{here.next}"
        return f"{name}#{here.generation}" if here.generation else name

    def _complain(self, error: Any) -> None:
        """The client's own words: no broker can be reached, or none lets us in. From any thread."""
        from confluent_kafka import KafkaError

        if (
            self._complaint is None or error.code() != KafkaError._ALL_BROKERS_DOWN
        ):  # the reason came before it
            self._complaint = error.str()


def _received(name: str, message: Any) -> Received:
    _, sent_at_ms = message.timestamp()
    what, value = f"the message {name}", message.value()
    if value is None:
        error = MalformedSignal(f"{what} has no value (it is a tombstone): a signal is a JSON object")
        return Received(NAME, name, name, None, error, max(0, sent_at_ms))
    return replace(received_text(NAME, name, value, what), sent_at_ms=max(0, sent_at_ms))


def _client(options: KafkaSignalOptions) -> dict[str, Any]:
    return {
        # The user's own values win over these two.
        "reconnect.backoff.max.ms": "2000",  # a broker that is back is found soon
        "log_level": "2",  # each vain attempt to connect would be a line; health says it once
        **options.client,
        "bootstrap.servers": options.bootstrap_servers,
        "group.id": options.group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",  # where to go on is decided, and said, by us
        "logger": CLIENT_LOG,
    }


def _consumer(client: dict[str, Any]) -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        message = "kafka needs a client: pip install 'snapshotter[kafka]'"
        raise ChannelOptionsRefused((OptionProblem("signal.enabled.channels", message),)) from error
    try:
        return confluent_kafka.Consumer(client)
    except confluent_kafka.KafkaException as error:
        message = f"the Kafka client (librdkafka) refuses them: {_said(error)}"
        raise ChannelOptionsRefused((OptionProblem(f"{CONSUMER}*", message),)) from error


def _said(error: Any) -> str:
    """A KafkaException's own words, without its code."""
    text: str = error.args[0].str()
    return text
