"""How much of the backlog goes into one batch.

An offset is a time, but a batch is to hold a number of events, and it must be known before the events are
read. So:

1. A short lag is taken whole: not even a deployment at its peak writes more than the limit in that time; or,
if the density of recent batches is known, that leaves room for several times as much.
2. Otherwise the events ahead are counted, by a change stream that looks nothing up and returns only times,
and the count stops at the limit. A density learned from quiet hours knows nothing of the bulk load that
follows them; a count does. It costs a quarter of the read, because only a sample is returned: of every
``stride`` times one. (The sample goes by seconds plus increment: increments alone start again each second,
and low ones are commonest.)

The cut is always *at* a cluster time, which belongs to the batch with all its events. A transaction, all of
whose events carry one time, is never split: it may exceed the limit, alone in its batch.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

PEAK_EVENTS_PER_SECOND = 100_000
DENSITY_HOLDS_SECONDS = 60
DENSITY_MARGIN = 4
SAMPLES_MIN = 1_000


def takes_all(lag_seconds: int, limit: int, events_per_second: float | None) -> bool:
    """Whether a lag of so many seconds surely holds no more than ``limit`` events (rule 1)."""
    if lag_seconds * PEAK_EVENTS_PER_SECOND <= limit:
        return True
    if events_per_second is None or lag_seconds > DENSITY_HOLDS_SECONDS:
        return False
    return lag_seconds * events_per_second * DENSITY_MARGIN <= limit


def stride_for(limit: int) -> int:
    """One of how many times to look at, with SAMPLES_MIN samples left in ``limit``: a power of two."""
    return 1 << max((limit // SAMPLES_MIN).bit_length() - 1, 0)


def cut(times: Iterable[int], limit: int, stride: int) -> int | None:
    """The last cluster time of the batch, or None if all that was counted fits.

    ``times`` are those of the (sampled) events in stream order, as ``ClusterTime.to_int`` gives them; each
    stands for ``stride`` events. No more of them are taken than it takes to pass the limit.
    """
    counted = 0
    last: int | None = None
    for time, events in groupby(times):
        for _ in events:
            counted += stride
            if counted > limit and last is not None:
                return last
        last = time
        if counted >= limit:
            return last
    return None
