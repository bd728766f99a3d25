"""How much of the backlog goes into one batch, and how it is divided among readers.

An offset is a time, but a batch is to hold a number of events, and it must be known before the events are
read. So:

1. A short lag is taken whole: not even a deployment at its peak writes more than the limit in that time; or the
density of recent batches is known, and the limit has room for several times as much. Where the oplog may be counted the
density is asked only for the lag of a stream that keeps up: a count costs little, and says where to divide the batch.
2. Otherwise the events ahead are counted (`streaming.source.backlog`), and the count stops a little behind the limit.
A density learned from quiet hours knows nothing of the bulk load that follows them; a count does. Only a
sample is looked at: of every ``stride`` times one. (It goes by seconds plus increment: increments alone start
again each second, and low ones are commonest.)

Events of many bytes count as several (`weight`), so that a batch is bounded by bytes as well. How large a looked-up
document will be is guessed by the average of its collection, so the bound is one that is aimed at.

A backlog that ends within a quarter behind the limit is taken whole: the few events left would cost a commit
of their own in every table.

The cut is always *at* a cluster time, which belongs to the batch with all its events. A transaction, all of
whose events carry one time, is never split: it may exceed the limit, alone in its batch. Nor is it split
between two readers, whose splits end at times of the sample.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

PEAK_EVENTS_PER_SECOND = 100_000
DENSITY_HOLDS_SECONDS = 60
COUNTED_FROM_SECONDS = 6
"""From which lag on a backlog is counted, where that is cheap: one that keeps up with changes has less."""
DENSITY_MARGIN = 4
SAMPLES_MIN = 1_000
SPLIT_MIN = 20_000

Counted = tuple[int, int]
"""A cluster time, as ``ClusterTime.to_int`` gives it, and how many events it stands for."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """``last``: the cluster time at which the batch is cut; None if all that was counted goes into it.

    ``counted`` are the samples of the batch, in stream order.
    """

    last: int | None
    counted: tuple[Counted, ...] = ()


def weight(events: int, size_bytes: int, bytes_per_event: float) -> int:
    """How many events to count for ``events`` of them with ``size_bytes`` together: more than there are where they
    exceed ``bytes_per_event`` (a batch's most bytes divided by its most events; inf bounds no bytes)."""
    return max(events, round(size_bytes / bytes_per_event))


def takes_all(
    lag_seconds: int, limit: int, events_per_second: float | None, *, cheaply_counted: bool = False
) -> bool:
    """Whether a lag of ``lag_seconds`` of cluster time surely holds no more than ``limit`` events (rule 1).

    ``events_per_second``: the density of recent batches, None where it is not known. ``cheaply_counted``: by the oplog.
    """
    if lag_seconds * PEAK_EVENTS_PER_SECOND <= limit:
        return True
    holds = COUNTED_FROM_SECONDS - 1 if cheaply_counted else DENSITY_HOLDS_SECONDS
    if events_per_second is None or lag_seconds > holds:
        return False
    return lag_seconds * events_per_second * DENSITY_MARGIN <= limit


def stride_for(limit: int) -> int:
    """The power of two, n, of which one cluster time in n is looked at: ``limit`` events keep SAMPLES_MIN samples."""
    return 1 << max((limit // SAMPLES_MIN).bit_length() - 1, 0)


def cut(counted: Iterable[Counted], limit: int) -> Admitted:
    """Where a batch of ``limit`` events ends. ``counted`` is in stream order, and read no further than is needed."""
    most = limit + limit // 4
    within: list[Counted] = []
    behind: list[Counted] = []
    total = 0
    for time, events in groupby(counted, key=itemgetter(0)):
        weight = sum(count for _, count in events)
        total += weight
        if total <= limit:
            within.append((time, weight))
        elif not within:  # one transaction is more than a batch, and is never split
            return Admitted(time, ((time, weight),))
        elif total > most:
            return Admitted(within[-1][0], tuple(within))
        else:
            behind.append((time, weight))
    return Admitted(None, (*within, *behind))


def splits(counted: Sequence[Counted], readers: int) -> tuple[int, ...]:
    """Times at which all splits but the last end: at most ``readers`` splits, of about equal size.

    None is planned with fewer than SPLIT_MIN events: a reader takes a moment to start.
    """
    total = sum(count for _, count in counted)
    most = max(1, min(readers, total // SPLIT_MIN))
    ends: list[int] = []
    seen = 0
    for time, count in counted[:-1]:
        seen += count
        if len(ends) + 1 < most and seen * most >= total * (len(ends) + 1):
            ends.append(time)
    return tuple(ends)
