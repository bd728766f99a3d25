"""Scenarios: how a simulated world is built, and how often what goes wrong in it.

A swarm draws a different mix for every seed, so that rare faults also meet in worlds where nothing else hides
them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from random import Random

from snapshotter.core.values.limits import Limits


@dataclass(frozen=True, slots=True)
class Scenario:
    """Chances are per opportunity; that of ``drops`` and ``fills`` (a rename replaces the collection) is a write.
    ``parts`` are requests for single ids or a range; ``blocking`` ones make the stream wait, and ``impatient`` is a
    stream that goes on all the same; ``again`` is a signal delivered once more, and ``together`` one that waits until
    the engine takes all that have come by then. Tables are ``altered``, ``removed``, ``put_back`` as they were
    a landing ago or ``stolen`` by others, or only ``optimized``; operators ``heal`` what is suspended by that, or the
    engine ``repairs`` it; a crash may take the whole state with it (``lost``). ``late``: a start captures one
    collection more than the one before, or one less.
    ``mode``: "lookup" or "post-image"; ``strategy``: how watermarks are written."""

    seed: int = 0
    strategy: str = "insert_insert"
    mode: str = "lookup"
    collections: int = 2
    keys: int = 14
    preloaded: float = 0.6
    collation: float = 0.0
    chunk_docs: int = 3
    windows_in_flight: int = 3
    commit_rows: int = 1_000
    reread_ids: int = 2
    rereads_max: int = 1_000
    attempts: int = 5
    ticks: int = 220
    writes: float = 0.35
    requests: int = 2
    filtered: float = 0.15
    parts: float = 0.0
    urgent: float = 0.0
    blocking: float = 0.0
    impatient: float = 0.1
    pauses: float = 0.0
    resumes: float = 0.1
    stops: float = 0.0
    again: float = 0.0
    together: float = 0.0
    kept: int = 1_000
    crash: float = 0.0
    restart: float = 0.0
    zombie: float = 0.3
    drain: float = 0.0
    read_fails: float = 0.0
    read_fails_definitely: float = 0.0
    open_fails: float = 0.0
    buffers_lost: float = 0.0
    open_document_lost: float = 0.0
    hidden: float = 0.0
    missing: float = 0.0
    lag: int = 0
    behind: int = 1_000
    drops: float = 0.0
    fills: float = 0.0
    yields: bool = False
    paced: bool = False
    altered: float = 0.0
    removed: float = 0.0
    put_back: float = 0.0
    stolen: float = 0.0
    optimized: float = 0.0
    heal: float = 0.1
    repairs: bool = False
    lost: float = 0.0
    late: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Whether others change tables."""
        return any((self.altered, self.removed, self.put_back, self.stolen, self.optimized))

    @property
    def in_stream(self) -> bool:
        return self.strategy != "cluster_time"

    @property
    def limits(self) -> Limits:
        return Limits(
            chunk_docs=self.chunk_docs,
            windows_in_flight=self.windows_in_flight,
            rows_in_flight=self.windows_in_flight * self.chunk_docs if self.paced else 1,
            commit_rows_target=self.commit_rows,
            attempts=self.attempts,
            reread_ids=self.reread_ids,
            reread_windows=2,
            rereads_max=self.rereads_max,
            ended_requests_kept=self.kept,
            yield_seconds=0 if self.yields else None,
            target_lag_seconds=8.0 if self.paced else None,
        )

    @property
    def exact(self) -> bool:
        """Every event carries its own state, so that each table version must be the collection at one
        moment."""
        return self.mode == "post-image" and not self.missing

    def __str__(self) -> str:
        default = Scenario()
        changed = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(default, f.name)
        ]
        return f"Scenario({', '.join(changed)})"


def _chance(rng: Random, most: float) -> float:
    return round(rng.uniform(0, most), 4) if rng.random() < 0.5 else 0.0


def swarm(seed: int) -> Scenario:
    """A scenario drawn from a seed: each fault is absent in half of the worlds, and frequent in some."""
    rng = Random(seed)
    chance = partial(_chance, rng)
    strategy = rng.choice(["insert_insert", "insert_delete", "cluster_time"])
    return Scenario(
        seed=seed,
        strategy=strategy,
        mode=rng.choice(["lookup", "post-image"]),
        collections=rng.randint(1, 3),
        keys=rng.randint(4, 20),
        preloaded=rng.choice([0.0, 0.3, 0.6, 0.9]),
        collation=rng.choice([0.0, 0.0, 0.5]),
        chunk_docs=rng.randint(1, 5),
        windows_in_flight=rng.randint(1, 4),
        commit_rows=rng.choice([1, 4, 1_000]),
        reread_ids=rng.randint(1, 4),
        attempts=rng.randint(2, 6),
        ticks=rng.choice([100, 200, 300]),
        writes=rng.choice([0.1, 0.3, 0.5]),
        requests=rng.randint(1, 4),
        filtered=chance(0.4),
        parts=chance(0.6),
        urgent=chance(0.6),
        blocking=chance(0.6),
        impatient=rng.choice([0.0, 0.1, 0.5]),
        pauses=chance(0.04),
        resumes=rng.choice([0.02, 0.1]),
        stops=chance(0.02),
        again=chance(0.05),
        kept=rng.choice([0, 1, 1_000]),
        crash=chance(0.02),
        restart=chance(0.02),
        drain=chance(0.02),
        read_fails=chance(0.2),
        read_fails_definitely=chance(0.05),
        open_fails=chance(0.1),
        buffers_lost=chance(0.3),
        open_document_lost=chance(0.03),
        hidden=chance(0.03) if strategy != "cluster_time" else 0.0,
        missing=chance(0.4),
        lag=rng.choice([0, 3, 10]),
        behind=rng.choice([10, 30, 1_000]),
        drops=chance(0.05),
        rereads_max=rng.choice([1_000, 1_000, 3]),
        fills=chance(0.05),
        together=chance(1.0),
        yields=rng.random() < 0.5,
        paced=rng.random() < 0.5,
        altered=chance(0.02),
        removed=chance(0.01),
        put_back=chance(0.01),
        stolen=chance(0.01),
        optimized=chance(0.02),
        heal=rng.choice([0.02, 0.2]),
        repairs=rng.random() < 0.5,
        lost=chance(0.3),
        late=chance(0.5),
    )
