"""Where an engine's metrics are shown, and the labels that all of them have, free of how it was configured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

NAME, SERVER = "name", "server"
"""The labels that every series has: the engine's name, and ``topic.prefix``, which is ``server`` in Debezium's
beans."""
OWN_LABELS = frozenset(
    {NAME, SERVER, "cause", "channel", "collection", "outcome", "part", "phase", "stage", "state", "what"}
)
"""Labels that mean something here already."""
LOCAL = "127.0.0.1"
"""The endpoint asks for no token, so it is shown to other machines only where that is asked for."""
_REFUSED = re.compile(r"[:*?\s\"]")
_NOT_IN_A_LABEL = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The endpoint's address (port 0: any that is free; None: there is no endpoint), and the ``labels`` of every
    series."""

    host: str = LOCAL
    port: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    option: ClassVar[str] = "metrics"


def tags_of(text: str) -> dict[str, str]:
    """The tags of ``custom.metric.tags`` (``k1=v1,k2=v2``) as labels: what a label's name cannot have becomes ``_``.
    Raises ValueError for what Debezium refuses as well, and for a name that is taken."""
    labels: dict[str, str] = {}
    for tag in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in tag.partition("="))
        if not equals or not key or "=" in value:
            raise ValueError(f"is a list of k=v, separated by commas; {tag!r} is none")
        if found := _REFUSED.search(key):
            raise ValueError(f"has the key {key!r}, and no tag's key may hold {found[0]!r}")
        label = _NOT_IN_A_LABEL.sub("_", key)
        label = f"_{label}" if label[0].isdigit() else label
        if label.startswith("__"):
            raise ValueError(f"has the key {key!r}: labels that begin with __ are Prometheus's own")
        if label in OWN_LABELS:
            raise ValueError(f"has the key {key!r}: metrics have that label already")
        if label in labels:
            raise ValueError(f"has the key {key!r}, and another one that makes the same label {label}")
        labels[label] = value
    return labels
