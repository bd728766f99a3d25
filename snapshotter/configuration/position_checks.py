"""Options of the position: whether they say where to begin, and say it once."""

from __future__ import annotations

from collections.abc import Iterator

from snapshotter.configuration.option_groups import CaptureOptions, EngineOptions
from snapshotter.errors import Problem
from snapshotter.position.own_file import read_start

START = "engine.position.start"


def check(capture: CaptureOptions, engine: EngineOptions) -> Iterator[Problem]:
    """Where a first start begins."""
    text = engine.position_start
    if text is None:
        return
    if capture.start_op_time != -1:
        why = "cannot be set together with capture.start.op.time: both say where a first start begins"
        yield Problem(START, why, text)
    try:
        read_start(text)
    except ValueError as error:
        yield Problem(START, str(error), text)
