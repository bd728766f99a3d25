"""Of the changes of each document only the newest leave: a landing picks the same rows as of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import bson
from hypothesis import given
from hypothesis import strategies as st

from streaming.namespaces import Namespace
from streaming.source.newest_events import AllEvents, Events, NewestEvents, Numbered
from streaming.source.raw_events import Event, place_of

PLACES = [place_of(Namespace("shop", name)) for name in ("orders", "signals")]
OPERATIONS = (b"insert", b"update", b"replace", b"delete", b"drop")
Change = tuple[bytes, int, int, bool]
"""Operation, document, collection, and whether an update comes with its document."""
CHANGES = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5), st.integers(0, 1), st.booleans()), max_size=60
)
Fill = Callable[[Sequence[Event]], Iterator[list[Event]]]


def event(change: Change) -> Event:
    operation, number, place, whole = change
    fields = {b"ns": PLACES[place]}
    if operation != b"drop":
        fields[b"documentKey"] = bson.encode({"_id": number})
    if operation in (b"insert", b"replace") or (operation == b"update" and whole):
        fields[b"fullDocument"] = bson.encode({"_id": number})
    return operation, 1, 100, fields


def passes(event: Event) -> bool:
    return event[0] == b"drop" or event[3][b"ns"] == PLACES[1]


def looking_up(there: set[int], few: int) -> Fill:
    """As a lookup does it: documents that are there now, so many events at a time."""

    def fill(events: Sequence[Event]) -> Iterator[list[Event]]:
        for begin in range(0, len(events), few):
            filled = []
            for operation, time, size, fields in events[begin : begin + few]:
                if operation == b"update" and b"fullDocument" not in fields:
                    key = fields[b"documentKey"]
                    if bson.decode(key)["_id"] in there:
                        fields = {**fields, b"fullDocument": key}
                filled.append((operation, time, size, fields))
            yield filled

    return fill


def leaving(events: Events, replies: Sequence[Sequence[Numbered]]) -> list[Numbered]:
    added = [row for reply in replies for rows in events.add(reply) for row in rows]
    return added + [row for rows in events.rest() for row in rows]


def picked(rows: list[Numbered]) -> tuple[dict[bytes, Numbered], dict[bytes, int], list[Numbered]]:
    """What a landing sees in such rows: of each document the newest event that lands something, the newest update
    without its document that nothing full follows, and everything that it looks at event by event."""
    landing: dict[bytes, Numbered] = {}
    bare: dict[bytes, int] = {}
    for number, found in sorted(rows, key=lambda row: row[0]):
        if passes(found):
            continue
        document = found[3][b"ns"] + found[3][b"documentKey"]
        if found[0] == b"update" and b"fullDocument" not in found[3]:
            bare[document] = number
        else:
            landing[document] = number, found
            bare.pop(document, None)
    return landing, bare, sorted((row for row in rows if passes(row[1])), key=lambda row: row[0])


@given(
    CHANGES, st.integers(1, 7), st.sampled_from([0, 3_000, 20_000]), st.none() | st.sets(st.integers(0, 5))
)
def test_a_landing_picks_the_same_rows(
    changes: list[Change], few: int, bytes_held: int, there: set[int] | None
) -> None:
    """However much room there is, however many events come in a reply, with and without a lookup; no row comes twice,
    and what must be seen event by event is."""
    numbered = list(enumerate(map(event, changes)))
    fill = None if there is None else looking_up(there, few)

    def replies() -> list[list[Numbered]]:
        return [numbered[begin : begin + few] for begin in range(0, len(numbered), few)]

    everything = leaving(AllEvents(fill), replies())
    newest = leaving(NewestEvents(passes, fill, bytes_held), replies())
    assert [number for number, _ in everything] == list(range(len(changes)))
    assert picked(newest) == picked(everything)
    assert len({number for number, _ in newest}) == len(newest)


def test_a_document_is_held_once() -> None:
    """However often it was changed, also among others that are changed once: it is the one that was touched last."""
    changes: list[Numbered] = []
    for number in range(2_000):
        changes.append((2 * number, event((b"replace", 0, 0, True))))
        changes.append((2 * number + 1, event((b"replace", 1 + number, 0, True))))
    replies = [changes[begin : begin + 10] for begin in range(0, len(changes), 10)]
    newest = leaving(NewestEvents(passes, None, 50_000), replies)
    hot = [number for number, found in newest if bson.decode(found[3][b"documentKey"])["_id"] == 0]
    assert hot == [3_998]


def test_a_document_is_looked_up_once() -> None:
    """An update that another one follows asks for nothing."""
    asked = []

    def fill(events: Sequence[Event]) -> Iterator[list[Event]]:
        asked.extend(events)
        yield list(events)

    changes = [(number, event((b"update", 0, 0, False))) for number in range(1_000)]
    rows = leaving(NewestEvents(passes, fill), [changes[:500], changes[500:]])
    assert [number for number, _ in rows] == [999]
    assert len(asked) == 1
