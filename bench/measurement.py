"""One measured figure, and the machine it was measured on.

A figure names who did it, what work it was, how many documents (or events) and how long. Figures of one
`what` are comparable: they did the same work on the same data in the same run, and only their ratios are
worth quoting.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from typing import NotRequired, TypedDict, TypeVar

__all__ = [
    "LOAD_MAX",
    "ROUNDS",
    "Measurement",
    "in_turns",
    "load_now",
    "machine",
    "measurement",
    "quiet_load",
    "timed",
    "too_busy",
    "warm",
]

LOAD_MAX = 0.5
"""The load average of the last minute above which others are at work, so that not even ratios hold."""

ROUNDS = 7
"""How often everyone does its work in one JVM. After three the compiler is still busy."""
_WARM = 3


Result = TypeVar("Result")


class Measurement(TypedDict):
    """`what` is the work, the same text for everyone who did it; `rate` is documents (or events) a second."""

    name: str
    what: str
    documents: int
    seconds: float
    rate: float
    details: NotRequired[dict[str, float | int | str | list[int]]]


def measurement(
    name: str, what: str, documents: int, seconds: float, **details: float | int | str | list[int]
) -> Measurement:
    """`details` go along into the JSON, such as the figure of a cold run. Raises ValueError on a zero
    time."""
    if seconds <= 0:
        raise ValueError(f"{name} ({what}) took {seconds} s: the clock was not read around the work")
    found = Measurement(
        name=name, what=what, documents=documents, seconds=round(seconds, 3), rate=round(documents / seconds)
    )
    if details:
        found["details"] = details
    return found


def warm(rounds: Sequence[Result], seconds: Callable[[Result], float]) -> Result:
    """The round that is the figure: of the last three the one whose ``seconds`` are the median. One alone may meet a
    checkpoint of MongoDB's, or a large collection of Java's."""
    last = sorted(rounds[-_WARM:], key=seconds)
    return last[len(last) // 2]


def in_turns(figures: Sequence[Measurement]) -> Measurement:
    """The one of three whose seconds are the median, with those of all: what was measured between other work."""
    found = warm(figures, lambda figure: figure["seconds"])
    found["details"] = {"milliseconds_by_turn": [round(1_000 * figure["seconds"]) for figure in figures]}
    return found


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What `work` returned, and the seconds it took."""
    begun = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begun


def too_busy(load: float) -> str | None:
    """Why nothing is to be measured now; None where nobody else is at work."""
    if load <= LOAD_MAX:
        return None
    return (
        f"the load of the last minute is {load}, above {LOAD_MAX}: others are at work, and figures would be worthless."
        f" Wait until it is quiet, or measure anyway with --busy"
    )


def load_now() -> float:
    """The load of the last minute."""
    return round(os.getloadavg()[0], 2)


def quiet_load(*, busy: bool) -> float:
    """The load of the last minute. Ends the program where others are at work, unless it is to measure although they are
    (``busy``)."""
    load = load_now()
    if (why := too_busy(load)) is not None and not busy:
        sys.exit(why)
    return load


def machine() -> dict[str, str | int | float]:
    """Cores, memory and system; no names of hosts or users."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
