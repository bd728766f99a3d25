"""What is to be said of the collections that are captured, and of what a list names and nobody can capture. Pure.

Ids of several types, capped and clustered collections are read and streamed as any others: that is said as a note,
since who sees them asks. A warning is what works otherwise than somebody may think.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapshotter.doctor.facts import CollectionFacts, Kind
from snapshotter.doctor.finding import Area, Finding, Severity
from streaming.namespaces import listed

_NOT_STREAMED = {
    Kind.VIEW: "is a view",
    Kind.TIME_SERIES: "is a time-series collection",
}


def captured(found: Sequence[CollectionFacts], *, lost: str = "", enable: bool = False) -> Iterator[Finding]:
    """Findings about what was ``found`` within the scope and the lists. ``lost``: what there is not of a collection
    that keeps no pre- and post-images, where these are counted on; ``enable``: the engine will switch them on."""
    ordinary = [one for one in found if one.kind is Kind.COLLECTION]
    yield _all(ordinary)
    for one in found:
        if one.kind in _NOT_STREAMED:
            yield _not_streamed(one)
    for one in ordinary:
        yield from _of_its_kind(one)
        yield from _of_its_ids(one)
        if lost and not one.images:
            yield _images(one, lost, enable=enable)


def _all(ordinary: Sequence[CollectionFacts]) -> Finding:
    if not ordinary:
        return Finding(
            Area.CAPTURED,
            Severity.WARNING,
            "collections",
            "no collection is captured that there is by now",
            "correct collection.include.list, or go on: a collection that comes later is captured then",
        )
    names = [str(one.namespace) for one in ordinary]
    counted = "1 collection is" if len(names) == 1 else f"{len(names)} collections are"
    return Finding(Area.CAPTURED, Severity.OK, "collections", f"{counted} captured: {listed(names)}")


def _not_streamed(one: CollectionFacts) -> Finding:
    based = f" of {one.based_on}" if one.based_on else ""
    remedy = "take it out of collection.include.list"
    if one.based_on:
        remedy += f", and name {one.based_on} there"
    return Finding(
        Area.CAPTURED,
        Severity.WARNING if one.listed else Severity.NOTE,
        str(one.namespace),
        f"{_NOT_STREAMED[one.kind]}{based}: MongoDB has no change stream of one, so it is not captured",
        remedy if one.listed else "",
    )


def _of_its_kind(one: CollectionFacts) -> Iterator[Finding]:
    name = str(one.namespace)
    if one.capped:
        yield Finding(
            Area.CAPTURED,
            Severity.NOTE,
            name,
            "is capped: what MongoDB drops at its end is a delete, so its row goes too",
            "let delta.deletes.mode be soft, if such rows are to stay, marked",
        )
    if one.clustered:
        yield Finding(
            Area.CAPTURED,
            Severity.NOTE,
            name,
            "is clustered by its ids: it is read and streamed as others are",
        )


def _of_its_ids(one: CollectionFacts) -> Iterator[Finding]:
    name = str(one.namespace)
    if one.collation is not None:
        whole = one.ids is not None and not one.ids.splits
        yield Finding(
            Area.CAPTURED,
            Severity.WARNING if whole else Severity.NOTE,
            name,
            f"has the collation {one.collation}, which orders strings otherwise than their bytes"
            + (
                ", and its ids hold strings: it is read as one window, and a read that is broken off begins anew"
                if whole
                else "; its ids hold none, so it is read in windows as others are"
            ),
            "read parts of it by a filter: `snapshotter execute-snapshot -c FILE COLLECTION --filter JSON`"
            if whole
            else "",
        )
    if one.ids is not None and one.ids.first != one.ids.last:
        yield Finding(
            Area.CAPTURED,
            Severity.NOTE,
            name,
            f"has ids of several types, from {one.ids.first} to {one.ids.last}: each has its row, and a window that "
            "spans two types is read more slowly",
        )


def _images(one: CollectionFacts, lost: str, *, enable: bool) -> Finding:
    if enable:
        what = "keeps no pre- and post-images; a start switches them on (engine.post.images.enable)"
        return Finding(Area.CAPTURED, Severity.NOTE, str(one.namespace), what)
    return Finding(
        Area.CAPTURED,
        Severity.WARNING,
        str(one.namespace),
        lost,
        f"let engine.post.images.enable switch them on, or enter in mongosh: {one.switch_on}",
    )
