"""Options of the position: whether they say where to begin, and say it once."""

from __future__ import annotations

from collections.abc import Iterator

from snapshotter.configuration.option_groups import CaptureOptions
from snapshotter.configuration.option_values import MatchMode
from snapshotter.configuration.position_options import HEAL_FIRST, PositionOptions
from snapshotter.configuration.settings_checks import regexes
from snapshotter.errors import Problem
from snapshotter.position.own_file import read_start

START = "engine.position.start"


def check(capture: CaptureOptions, position: PositionOptions) -> Iterator[Problem]:
    """Where a first start begins, and what a heal reads first: ``capture`` says how its entries are read."""
    if capture.match_mode is MatchMode.REGEX:
        yield from regexes(HEAL_FIRST, position.heal_first)
    text = position.start
    if text is None:
        return
    if capture.start_op_time != -1:
        why = "cannot be set together with capture.start.op.time: both say where a first start begins"
        yield Problem(START, why, text)
    try:
        read_start(text)
    except ValueError as error:
        yield Problem(START, str(error), text)
