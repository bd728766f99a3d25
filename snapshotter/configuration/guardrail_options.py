"""The options of how many collections may be captured. They are one of the groups of `option_groups`."""

from __future__ import annotations

from typing import Annotated

from snapshotter.configuration.option_values import Group, LimitAction, WholeNumber, choice, option


class GuardrailOptions(Group):
    """How much may be captured, before somebody is told or nothing is started."""

    collections_max: WholeNumber = option(
        "guardrail.collections.max", "most collections that may be captured; 0 is any number", 0, ge=0
    )
    limit_action: Annotated[LimitAction, choice(LimitAction)] = option(
        "guardrail.collections.limit.action",
        "what happens above that: warn, or fail, which refuses to start",
        LimitAction.WARN,
    )
