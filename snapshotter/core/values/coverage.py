"""Which collections a start need not read: the marks of what an engine captures.

A collection that is captured from its creation on is whole by its events. Any other one holds documents that never
streamed. So a start looks at what is there: what it finds without a mark is *new*, and is read, or left *unread* and
said so at every start. The marks are saved with each batch, so a replay begins with those of the batch before.

Invariants
- A mark ends when a start no longer captures the collection: what changes from then on is never seen. Captured again,
  it is new, and its rows are not to be believed.
- Once a run has begun, whatever is there has a mark. What streams without one was made since, and is whole.
- A settled collection is whole, or is read by a request that is durable (and says so where it fails), or was left alone
  by the mode of a first start. Where a first load, or the load of a start, is stopped, its collection is unread.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streaming.namespaces import Namespace


@dataclass(frozen=True, slots=True)
class Coverage:
    """No collection is in both: the marks of those that need no reading, and of those that were not read."""

    settled: frozenset[Namespace] = frozenset()
    unread: frozenset[Namespace] = frozenset()

    def within(self, captures: Callable[[Namespace], bool]) -> Coverage:
        """Those of the marks that stay when a start captures only these collections."""
        return Coverage(*(frozenset(filter(captures, names)) for names in (self.settled, self.unread)))

    def new(self, there: Iterable[Namespace]) -> list[Namespace]:
        """Those that have no mark, in their order."""
        return [n for n in there if n not in self.settled and n not in self.unread]

    def settling(self, names: Iterable[Namespace]) -> Coverage:
        names = frozenset(names)
        return Coverage(self.settled | names, self.unread - names)

    def leaving(self, names: Iterable[Namespace]) -> Coverage:
        """With these as unread."""
        names = frozenset(names)
        return Coverage(self.settled - names, self.unread | names)

    def after_batch(
        self, streamed: Iterable[Namespace], truncated: Iterable[Namespace], read: Iterable[Namespace]
    ) -> Coverage:
        """The marks once a batch has landed. ``streamed``: captured collections that it has events of; ``truncated``:
        by a drop or a rename, so that nothing of before is left; ``read``: those that a request has by now read from
        end to end, into a table that holds nothing else. One of these that is not captured any more gets no mark."""
        settled = {*self.new(streamed), *truncated, *self.unread.intersection(read)}
        return self if settled <= self.settled else self.settling(settled)

    def to_json(self) -> dict[str, Any]:
        return {"settled": sorted(map(str, self.settled)), "unread": sorted(map(str, self.unread))}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Coverage:
        return cls(*(frozenset(map(Namespace.parse, value[name])) for name in ("settled", "unread")))
