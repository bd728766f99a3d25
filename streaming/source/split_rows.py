"""The rows of one split of a batch: its range of the change stream is read, and every reply becomes rows.

Replies of ordinary changes are made into rows all at once (`block_rows`), others event by event (`change_events`,
`newest_events`). Both number what they see from the same count, so ``ord`` is the order of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from streaming.fields.document_rules import DocumentRules, document_rules
from streaming.fields.server import projection
from streaming.keys.shard_keys import ShardKey, shard_keys
from streaming.mongo.deployment import connect
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.block_rows import BlockRows
from streaming.source.change_cursor import ChangeRange, StreamSpec
from streaming.source.change_events import RowBuilder
from streaming.source.change_options import ChangeOptions
from streaming.source.document_lookup import DocumentLookup
from streaming.source.event_block import EventBlock
from streaming.source.newest_events import AllEvents, Events, NewestEvents, Numbered
from streaming.source.places import Places
from streaming.source.raw_events import DOCUMENT_EVENTS, Event, place_of, without_document


class SplitRows:
    """Rows of split number ``split`` under these ``options``; ``known``: as of `StreamSpec`."""

    def __init__(self, options: ChangeOptions, split: int, known: tuple[Namespace, ...] = ()) -> None:
        self._options = options
        self._stream = replace(options.stream, known=known)
        self._sharded: dict[Namespace, ShardKey] = {}
        self._places = Places(options.stream.scope.captures, split, self._sharded.__contains__, self._rules)
        self._rows = RowBuilder(
            self._places, options.wide, options.transactions, raises=options.raises, updates=options.updates
        )
        signals = options.stream.scope.signals
        self._signals = None if signals is None else place_of(signals)
        self._token: bytes | None = None

    def read(self, start: ClusterTime, end: ClusterTime) -> Iterator[pa.RecordBatch]:
        """The rows of the changes in ``(start, end]``. Raises SourceError."""
        options, rows = self._options, self._rows
        self._sharded |= shard_keys(connect(options.uri))
        stream, lookup = self._how_to_look_up(end)
        rows.looks_up = options.stream.full_document == "updateLookup"
        if self._sharded and stream.fields is not None and not options.updates:
            # It tells whether a document's shard key changes.
            stream = replace(stream, fields=(*stream.fields, "updateDescription"))
        changes = ChangeRange(options.uri, stream, start, end)
        fill = None if lookup is None else lookup.filled
        events: Events = AllEvents(fill)
        if options.latest:
            events = NewestEvents(lambda event: self._passes(event) or rows.stands_alone(event), fill)
        blocks = BlockRows(self._places, self._signals) if self._in_blocks() else None
        # Its cursor ends here, whatever happens. An error keeps what is suspended until Python collects it, in the
        # midst of anything: a cursor that is closed then may wait for a lock that its own thread holds.
        with closing(changes.replies(blocks=blocks is not None)) as replies:
            for reply in replies:
                numbered: Iterable[Numbered]
                made = blocks.rows(reply) if blocks is not None and isinstance(reply, EventBlock) else None
                if made is not None:
                    batches, numbered = made
                    yield from batches
                else:
                    cut = reply.events() if isinstance(reply, EventBlock) else reply
                    numbered = rows.numbered(self._with_large(cut))
                for some in events.add(numbered):
                    yield from rows.add(some)
            for some in events.rest():
                yield from rows.add(some)
        yield from rows.rest()
        self._token = changes.token

    def trailer(self, end: ClusterTime, splits: int) -> pa.RecordBatch:
        """What is said of the split, which ended at ``end``, when all of it has been read."""
        return self._rows.trailer(end, self._token, splits)

    def _in_blocks(self) -> bool:
        """Whether an ordinary change is nothing but a row of a state table: nobody asks what else it says, and none is
        without its document that has one."""
        options, stream = self._options, self._stream
        asked = options.wide or options.updates or options.transactions
        return options.latest and not asked and stream.oversize != "skip" and not stream.user

    def _rules(self, namespace: Namespace) -> DocumentRules | None:
        return document_rules(self._options.fields, namespace, self._sharded.get(namespace, ()))

    def _with_large(self, events: list[Event]) -> Iterable[Event]:
        """What events without their documents become: too large ones, which come only where they are to be skipped, and
        those that a stage of the user's left without."""
        if self._stream.oversize == "skip" or self._stream.user:
            return map(without_document, events)
        return events

    def _passes(self, event: Event) -> bool:
        """What must be seen event by event, although only the newest of each document are asked for."""
        fields = event[3]
        if event[0] not in DOCUMENT_EVENTS or (self._options.transactions and b"txnNumber" in fields):
            return True
        return self._signals is not None and fields[b"ns"] == self._signals

    def _how_to_look_up(self, end: ClusterTime) -> tuple[StreamSpec, DocumentLookup | None]:
        """The stream as asked for; or, where the server would look up the document of each update, one without that,
        and what looks up many at a time, at or after ``end``."""
        stream, uri = self._stream, self._options.uri
        at_server = stream.user.stages or connect(uri).is_mongos  # stages may look at documents
        if stream.full_document != "updateLookup" or at_server:
            return stream, None
        lookup = DocumentLookup(uri, end, stream.scope.captures, self._projection)
        return replace(stream, full_document=None), lookup

    def _projection(self, namespace: Namespace) -> Mapping[str, int] | None:
        rules = self._options.fields.of(namespace)
        return None if rules is None else projection(rules)
