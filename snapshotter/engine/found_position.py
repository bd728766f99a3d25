"""A position that was lost with the folder that held it, found again: from what was saved beside the checkpoint, or,
where the whole state is gone, from the tables' own commits (`snapshotter.landing.origin`).

    the checkpoint is gone, progress is not    the position that progress was saved with
    the state is an older copy                 the same
    all of the state is gone                   the start of the newest batch that any table records

Each time a new generation begins there, with what is known of the collections; nothing is read but what was not
settled. It is believed only where every table can be accounted for. Where the log of one is cleaned up, it was another
engine's, something else was captured then, or the oplog no longer holds the position, that is *not to be found*: the
engine begins as at a first start, and reads with reconcile what its mode reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from pyspark.sql import SparkSession

from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.progress import Progress
from snapshotter.landing.origin import Origin
from snapshotter.state.generation import Cause, Generation, carried
from snapshotter.state.progress_store import ProgressStore
from streaming.delta.last_landing import LastLanding, last_landing, recorded_batch
from streaming.delta.table_identity import TableMark, engine_of
from streaming.namespaces import Namespace, listed
from streaming.positions import ORIGIN, ClusterTime

_log = structlog.get_logger("snapshotter.engine")
_LOOKS = 4
T = TypeVar("T")
Holds = Callable[[ClusterTime], bool]


class NotToBeFound(Exception):
    """The tables do not tell the position; the message says why not."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where to begin, in the generation ``number``; which collections are whole up to there; and the newest landing of
    each table."""

    start: ClusterTime
    number: int
    settled: frozenset[Namespace]
    tables: Mapping[Namespace, TableMark]

    @property
    def progress(self) -> Progress:
        """The state to begin from."""
        return Progress(position=self.start, coverage=Coverage(self.settled), tables=self.tables)


def beside_checkpoint(store: ProgressStore, holds: Holds) -> ProgressStore | None:
    """Where the checkpoint was removed, or replaced, and progress was not: a store that begins where that was saved, in
    force when this returns. None where the two fit, or where the oplog no longer has that position (``holds``)."""
    batch, progress = store.unknown_to_checkpoint(), store.newest()
    if batch is None or progress is None or progress.position == ORIGIN:
        return None
    if not holds(progress.position):
        _log.warning("the oplog no longer holds the position of before", position=str(progress.position))
        return None
    _log.warning(
        "the checkpoint does not know the batch that progress was saved for, so it was removed or replaced: the stream "
        "goes on behind that batch, in a new one",
        batch=batch,
        position=str(progress.position),
    )
    return _going_on(store, progress)


def of_older_copy(
    store: ProgressStore, recorded: Callable[[Namespace], int | None], holds: Holds
) -> ProgressStore | None:
    """Where tables record batches that neither progress nor the checkpoint knows of, so that both are an older copy,
    put back beside newer tables: a store that begins where that was saved, in force when this returns. It would hand
    out the numbers of these batches again, and what a table records already is not written.

    ``recorded`` gives the newest batch that a table records. None where there are none, or where the oplog no longer
    has that position (``holds``): then it is lost."""
    progress, begun = store.newest(), store.newest_begun()
    if progress is None or begun < 0:
        return None
    newest, batches = max(begun, progress.batch_id), _each(progress.tables, recorded)
    ahead = {namespace: batch for namespace, batch in batches.items() if batch is not None and batch > newest}
    if not ahead or not holds(progress.position):
        return None
    _log.warning(
        "tables record batches that the state does not know of, so it is an older copy: the stream goes on where that "
        "was saved, with batches of other numbers",
        batch=newest,
        recorded=max(ahead.values()),
        collections=listed(sorted(map(str, ahead))),
        position=str(progress.position),
    )
    return _going_on(store, progress)


def from_tables(
    store: ProgressStore,
    spark: SparkSession,
    paths: Mapping[Namespace, str],
    engine: str,
    scope: str,
    holds: Holds,
) -> ProgressStore | None:
    """Where an engine of the name ``engine`` has no state and tables with landings of it are there: a store that begins
    where these say, in force when this returns. None where that is not to be found, which is logged where there are
    such tables.

    ``paths`` are the tables of what is captured, ``scope`` the digest of that, ``holds`` asks the oplog.
    """
    looked = _each(paths, lambda namespace: last_landing(spark, paths[namespace]))
    landings = {n: landing for n, landing in looked.items() if landing is not None}
    if not any(is_of(landing, engine) for landing in landings.values()):
        return None

    def recorded(namespace: Namespace, app_id: str) -> int | None:
        return recorded_batch(spark, paths[namespace], app_id)

    try:
        found = find(landings, engine, scope, recorded)
        if not holds(found.start):
            raise NotToBeFound(f"the oplog no longer holds {found.start}, where the newest batch began")
    except NotToBeFound as why:
        _log.warning(
            "tables of this engine are there without its state, and do not tell its position", why=str(why)
        )
        return None
    _log.warning(
        "the state of this engine is gone and its tables are not: it goes on where their newest batch began",
        position=str(found.start),
        collections=len(found.settled),
    )
    new = _generation(found.number, found.start, store.generation.partition)
    return store.begin_generation(new, found.progress)


def find(
    landings: Mapping[Namespace, LastLanding],
    engine: str,
    scope: str,
    recorded: Callable[[Namespace, str], int | None],
) -> Found:
    """What the newest ``landings`` of all tables tell, for the engine of the name ``engine`` that captures what
    ``scope`` is a digest of. ``recorded`` gives the newest batch of an application that a table records. Raises
    NotToBeFound."""
    if len({landing.owner.id for landing in landings.values() if landing.owner is not None}) > 1:
        raise NotToBeFound("they belong to several lives of its state")
    told = {n: origin for n, landing in landings.items() if (origin := _origin(landing, engine)) is not None}
    if not told:
        raise NotToBeFound("no commit says where its batch began")

    def order(namespace: Namespace) -> tuple[int, int]:
        return told[namespace].generation, _said(landings[namespace])["batch"]

    newest = max(sorted(told), key=order)
    origin, said = told[newest], _said(landings[newest])
    if origin.scope != scope:
        raise NotToBeFound("something else was captured when the newest batch landed")
    if origin.unsettled is None or origin.start == ORIGIN:
        raise NotToBeFound("its newest batch does not say which collections were whole")
    for namespace in sorted(landings.keys() - told.keys()):
        _account_for(
            namespace, landings[namespace], engine, recorded(namespace, said["app_id"]), said["batch"]
        )
    marks = {n: landing.mark for n, landing in landings.items() if landing.mark is not None}
    return Found(origin.start, origin.generation + 1, frozenset(landings) - origin.unsettled, marks)


def is_of(landing: LastLanding, engine: str) -> bool:
    """Whether the table says that it is of an engine of this name, ``engine``, and something has landed there."""
    named = landing.owner is not None and landing.owner.engine == engine
    return named and (landing.said is not None or not landing.whole)


def _account_for(
    namespace: Namespace, landing: LastLanding, engine: str, recorded: int | None, newest: int
) -> None:
    """Raises NotToBeFound unless nothing has landed in the table behind the batch ``newest``."""
    if landing.said is None and landing.whole:
        return  # it was made, and nothing has landed yet
    if landing.said is not None and engine_of(landing.said["app_id"]) != engine:
        raise NotToBeFound(f"the table of {namespace} was last written by another engine")
    if recorded is None or recorded > newest:
        raise NotToBeFound(f"the log of the table of {namespace} no longer tells its newest batch")


def _origin(landing: LastLanding, engine: str) -> Origin | None:
    if landing.said is None or engine_of(landing.said["app_id"]) != engine:
        return None
    return Origin.from_json(landing.said["metadata"])


def _said(landing: LastLanding) -> Mapping[str, Any]:
    assert landing.said is not None, "it has told where it began"
    return landing.said


def _each(names: Collection[Namespace], look: Callable[[Namespace], T]) -> dict[Namespace, T]:
    """Some tables are looked at side by side."""
    with ThreadPoolExecutor(_LOOKS, "tables") as pool:
        return dict(zip(names, pool.map(look, names), strict=True))


def _going_on(store: ProgressStore, progress: Progress) -> ProgressStore:
    """A new generation where ``progress`` was saved, with all that it knows."""
    now = store.generation
    new = _generation(now.number + 1, progress.position, now.partition)
    return store.begin_generation(new, carried(progress, progress.position))


def _generation(number: int, start: ClusterTime, partition: str) -> Generation:
    return Generation(number, cause=Cause.REMOVED, start=start, heals=False, partition=partition)
