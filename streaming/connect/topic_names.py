"""The names of Kafka topics, by Debezium's rule: ``<topic.prefix>.<database>.<collection>``, and those of transactions
and heartbeats.

A character that Kafka does not take in a name becomes ``_``, and a name ends after 249 characters. So two collections
may come to share a topic: `TopicNames.shared` finds them. Records of both are there then, with keys that do not say
which is whose; Debezium has the same, and only a warning can be given.

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streaming.namespaces import Namespace

LENGTH_MAX = 249
_REFUSED = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class TopicNames:
    """``prefix`` is ``topic.prefix``, ``delimiter`` ``topic.delimiter``. ``transaction`` is ``topic.transaction``, and
    comes behind the prefix; ``heartbeat`` is ``topic.heartbeat.prefix``, and comes before it. ``heartbeat_name``: the
    whole name of the heartbeat topic, where one is given (``topic.heartbeat.name``)."""

    prefix: str
    delimiter: str = "."
    transaction: str = "transaction"
    heartbeat: str = "__debezium-heartbeat"
    heartbeat_name: str = ""

    def of(self, namespace: Namespace) -> str:
        """The topic of a collection's events."""
        return sanitized(self.delimiter.join((self.prefix, namespace.database, namespace.collection)))

    @property
    def transactions(self) -> str:
        return self.delimiter.join((self.prefix, self.transaction))

    @property
    def heartbeats(self) -> str:
        return self.heartbeat_name or self.delimiter.join((self.heartbeat, self.prefix))

    def shared(self, namespaces: Iterable[Namespace]) -> Mapping[str, tuple[Namespace, ...]]:
        """The topics that more than one of these collections go to, with all that do; and those that a collection
        shares with transactions or heartbeats."""
        found: dict[str, set[Namespace]] = {}
        for namespace in namespaces:
            found.setdefault(self.of(namespace), set()).add(namespace)
        own = {self.transactions, self.heartbeats}
        return {
            topic: tuple(sorted(those)) for topic, those in found.items() if len(those) > 1 or topic in own
        }


def sanitized(name: str) -> str:
    """The name as Kafka takes it."""
    if name in (".", ".."):
        return "_" * len(name)
    return _REFUSED.sub("_", name)[:LENGTH_MAX]


def refused_in(name: str) -> str | None:
    """The first character of ``name`` that Kafka does not take in a topic's name; None where it takes all."""
    found = _REFUSED.search(name)
    return None if found is None else found[0]
