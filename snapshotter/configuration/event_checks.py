"""Rules of the options of events, and what they change nothing of. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from snapshotter.configuration.event_options import EventOptions
from snapshotter.configuration.option_groups import CaptureOptions
from snapshotter.errors import Problem
from streaming.events.envelope import JsonSerialization

_PRE_IMAGE = "_with_pre_image"
_TARGETS = "delta.changelog.enabled, engine.topics.enabled"


def check(events: EventOptions) -> Iterator[Problem]:
    """Events are skipped where they are told alone: a state table that lacked some would equal nothing, which has to be
    asked for."""
    if events.pipeline and not events.filtered:
        yield Problem(
            "cursor.pipeline",
            "would leave state tables without what its stages leave out, so that they equal no collection: set "
            "delta.state.filtered=true, if that is what they are for (docs/filtered.md), or leave it out",
            events.pipeline,
        )
    if events.targets:
        return
    why = "would leave state tables without these changes, and nothing is on that tells events"
    step = f"set one of these to true, where it acts alone ({_TARGETS}), or leave it out"
    if events.skips and not events.filtered:
        yield Problem("skipped.operations", f"{why}: {step}", ",".join(events.skipped))
    if events.skips_unchanged:
        yield Problem("skip.messages.without.change", f"{why}: {step}", "true")


def warnings(events: EventOptions, capture: CaptureOptions) -> Iterator[str]:
    """What changes nothing: ``capture`` may ask for what only targets of ``events`` would hold; and what it means that
    state tables are filtered."""
    if events.filtered and not events.filters:
        yield "delta.state.filtered=true has no effect: neither cursor.pipeline nor skipped.operations is set"
    if events.filters:
        yield events.filtered_text
    if events.targets:
        return
    if capture.mode.value.endswith(_PRE_IMAGE):
        without = capture.mode.value.removesuffix(_PRE_IMAGE)
        yield (
            f"capture.mode={capture.mode}: no state table keeps documents from before a change, and nothing else is "
            f"on that would ({_TARGETS}), so this does what {without} does"
        )
    if events.serialization is not JsonSerialization.LEGACY:
        yield (
            "json.serialization.mode has no effect: state tables have columns, and nothing is on that tells events "
            f"({_TARGETS})"
        )
