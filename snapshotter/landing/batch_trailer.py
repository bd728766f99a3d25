"""What the source says of a batch: its end, and what is in it. One trailer for each split that it was read in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streaming.json_text import from_text
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime


@dataclass(frozen=True, slots=True)
class BatchTrailer:
    """``token`` is the resume token behind the batch, in base64; ``transactional`` are events of transactions, where
    the source was asked about them; ``splits``: in how many the batch was read. ``sizes``: bytes of what came
    as rows of each collection. ``operations``: events of each collection by ``op`` ("c", "u", "d")."""

    end: ClusterTime
    token: str | None
    events: int
    size_bytes: int
    namespaces: Mapping[Namespace, int]
    transactional: int = 0
    splits: int = 1
    sizes: Mapping[Namespace, int] = field(default_factory=dict)
    operations: Mapping[Namespace, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def from_texts(cls, texts: Sequence[str], batch_id: int) -> BatchTrailer:
        """The trailers of all splits, as one. Raises RuntimeError if one is missing: the batch is not whole then."""
        found = sorted((from_text(text) for text in texts), key=lambda value: value["split"])
        splits = found[-1]["splits"] if found else 1
        if [value["split"] for value in found] != list(range(splits)):
            raise RuntimeError(
                f"batch {batch_id} came with the trailers of splits {[value['split'] for value in found]} instead of"
                f" {splits}: it is not whole"
            )
        namespaces: Counter[Namespace] = Counter()
        sizes: Counter[Namespace] = Counter()
        operations: dict[Namespace, Counter[str]] = {}
        for value in found:
            namespaces.update({Namespace.parse(name): n for name, n in value["namespaces"].items()})
            sizes.update({Namespace.parse(name): n for name, n in value["sizes"].items()})
            for name, counts in value["operations"].items():
                operations.setdefault(Namespace.parse(name), Counter()).update(counts)
        return cls(
            end=ClusterTime.from_json(found[-1]["end"]),
            token=found[-1]["token"],
            events=sum(value["events"] for value in found),
            size_bytes=sum(value["bytes"] for value in found),
            namespaces=namespaces,
            transactional=sum(value["transactional"] for value in found),
            splits=splits,
            sizes=sizes,
            operations=operations,
        )
