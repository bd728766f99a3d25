"""The state tables of one engine: opened once, with their plans at hand.

A table is landed by one thread at a time, while chunk readers only ask for its plan; so the plan is kept beside it. It
is first set by whoever makes the table, and then changes under the table's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

import structlog
from pyspark.sql import SparkSession

from snapshotter.core.values.chunks import Target, span_of
from snapshotter.core.values.suspension import TableUnusable
from snapshotter.landing.registration import Registration
from snapshotter.landing.table_faults import fault_of
from streaming.column_names import Path
from streaming.delta.further_columns import NOTHING_FURTHER, FurtherColumns
from streaming.delta.object_store import ObjectStore, OutOfReach
from streaming.delta.row_writer import Choice
from streaming.delta.state_table import StateTable
from streaming.delta.state_upkeep import StateUpkeep
from streaming.delta.table_folder import TableFolder
from streaming.delta.table_identity import Owner, TableMark
from streaming.delta.table_paths import STATE, parse_state_path, state_path, under
from streaming.delta.table_properties import USUAL, TableForm
from streaming.jvm import packages
from streaming.layout import AnyLayout, TablePlan
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.tables")
_LOOKS = 4


@dataclass(slots=True)
class OpenTable:
    """A state table and its plan; None while there is no table. ``made`` is called when there is one."""

    table: StateTable
    plan: TablePlan | None
    made: Callable[[], object] = lambda: None
    lock: threading.Lock = field(default_factory=threading.Lock)
    _making: threading.Lock = field(default_factory=threading.Lock)

    @property
    def upkeep(self) -> StateUpkeep:
        return self.table.upkeep

    def make(self, sample: Callable[[], TablePlan]) -> TablePlan:
        """The plan; the table is made first if there is none, with the columns that ``sample`` finds. Not under the
        table's lock: a reader of chunks would wait for the whole landing that makes the table."""
        with self._making:
            return self.plan if self.plan is not None else self.grow(sample())

    def known_plan(self) -> TablePlan:
        """The plan; the table is made first, with the fewest columns, if there is none."""
        return self.grow(self.table.layout.least_plan())

    def grow(self, plan: TablePlan) -> TablePlan:
        """Add what ``plan`` has and the table lacks; returns the plan that the table has then."""
        refused = frozenset(self.table.refusals)
        if self.plan is None:
            self.table.create(plan)
            self.plan = self.table.open() or plan
            self.made()
        elif self.plan.merge(plan) != self.plan:
            self.plan = self.table.evolve(plan)
        self.tell_refusals(refused)
        return self.plan

    def clear_leftovers(self, folder: TableFolder) -> None:
        """`StateTable.clear_leftovers`, which commits, so not while a landing is under way: the commit would carry its
        mark. Where nothing is left, nobody waits."""
        if self.table.leftovers(folder):
            with self.lock:
                self.table.clear_leftovers(folder)

    def tell_refusals(self, known: frozenset[Path] = frozenset()) -> None:
        """Log which fields have no column, and why, but for those that are ``known`` to have none."""
        for path, reason in self.table.refusals.items():
            if path not in known:
                named = {"collection": str(self.table.namespace), "field": ".".join(path)}
                _log.warning("a field has no column: it is kept in _rescued_data", **named, reason=reason)


class KeptInOrder(Protocol):
    """A table whose files are kept in order, by its ``upkeep``. Whoever commits to it holds its ``lock``."""

    @property
    def upkeep(self) -> StateUpkeep: ...

    @property
    def lock(self) -> threading.Lock: ...


class Tables:
    """The tables under ``warehouse`` (a folder or a URI), each opened when it is first asked for. What is wrong with
    one of them alone is raised as TableUnusable.

    ``layout`` is that of all of them. ``sample`` looks at a collection, to plan the columns of a table that does not
    exist yet. ``app_id`` names the checkpoint that batches are counted by, once a batch has begun. ``owner`` gives the
    engine that they are for; where it gives None, ownership is not checked. ``further``: columns of all of them beside
    the plan's. ``form``: how those are made that are not there. ``changelogs``: changelog tables that the present run
    has opened, which are kept in order as well.
    """

    def __init__(
        self,
        spark: SparkSession,
        warehouse: str,
        app_id: Callable[[], str],
        layout: AnyLayout,
        sample: Callable[[Namespace], TablePlan],
        owner: Callable[[], Owner | None] = lambda: None,
        further: FurtherColumns = NOTHING_FURTHER,
        form: TableForm = USUAL,
    ) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self.application_id = app_id
        self._layout = layout
        self._sample = sample
        self.owner = owner
        self._further = further
        self._form = form
        self._registration = None if form.catalog is None else Registration(spark, form.catalog)
        self.changelogs: Mapping[Namespace, KeptInOrder] = {}
        self._lock = threading.Lock()
        self._opening: dict[Namespace, threading.Lock] = {}
        self._open: dict[Namespace, OpenTable] = {}
        self._clearing: dict[Namespace, threading.Lock] = {}
        self._cleared: set[Namespace] = set()
        self._out_of_reach: set[Namespace] = set()
        self._tried: set[tuple[ObjectStore, str]] = set()

    def there(self) -> list[Namespace]:
        """The collections that have a folder for their table, by name. Other folders, and files, are not ours."""
        path = packages(self._spark).org.apache.hadoop.fs.Path(under(self._warehouse, STATE))
        files = path.getFileSystem(cast(Any, self._spark)._jsparkSession.sessionState().newHadoopConf())
        found: list[Namespace] = []
        for database in _folders(files, path) if files.exists(path) else ():
            for folder in _folders(files, database):
                try:
                    found.append(parse_state_path(f"{STATE}/{database.getName()}/{folder.getName()}"))
                except ValueError as error:
                    _log.info("a folder beside the tables is left alone", folder=str(folder), why=str(error))
        return sorted(found)

    @property
    def further(self) -> FurtherColumns:
        """What all tables have beside the documents' columns and ours."""
        return self._further

    def filled(self, namespaces: Iterable[Namespace]) -> frozenset[Namespace]:
        """Those whose table holds a row; several tables are looked at side by side. One that cannot be read counts as
        filled."""
        names = list(namespaces)
        if not names:
            return frozenset()
        with ThreadPoolExecutor(min(_LOOKS, len(names)), "tables") as pool:
            holds = pool.map(self._is_filled, names)
            return frozenset(name for name, filled in zip(names, holds, strict=True) if filled)

    def _is_filled(self, namespace: Namespace) -> bool:
        try:
            return not self.of(namespace).table.is_empty()
        except Exception as error:
            if fault_of(namespace, error) is None:
                raise
            return True  # its first batch suspends the collection, and says why

    def of(self, namespace: Namespace) -> OpenTable:
        with self._lock:
            opening = self._opening.setdefault(namespace, threading.Lock())
        with opening, _blaming(namespace):
            if (opened := self._open.get(namespace)) is None:
                try:
                    path = under(self._warehouse, state_path(namespace))
                except ValueError as error:
                    step = "leave the collection out (collection.exclude.list), or rename it"
                    raise TableUnusable(namespace, "name", str(error), step) from error
                where, app_id = (self._spark, path, namespace), self.application_id()
                owner, further, form = self.owner(), self._further, self._form
                table = StateTable(self._layout, *where, app_id, owner=owner, further=further, form=form)
                made = partial(self._register, namespace, path)
                opened = self._open[namespace] = OpenTable(table, table.open(), made)
                opened.tell_refusals()
                if opened.plan is not None:
                    made()
            return opened

    def _register(self, namespace: Namespace, path: str) -> None:
        if self._registration is not None:
            self._registration.register(namespace, path)

    def forget(self, namespace: Namespace) -> None:
        """Drop what is known of the table: it is opened anew when it is next asked for."""
        with self._lock:
            self._open.pop(namespace, None)

    def opened(self) -> dict[Namespace, OpenTable]:
        """Those that have been asked for."""
        with self._lock:
            return dict(self._open)

    def written_by(self) -> dict[Namespace, Choice]:
        """How the newest landing of each table was written, and why so; only of tables that something has landed in
        since they were opened."""
        written = {namespace: table.table.written_by for namespace, table in self.opened().items()}
        return {namespace: choice for namespace, choice in written.items() if choice is not None}

    def plan(self, namespace: Namespace) -> TablePlan:
        """The plan of the table, which is made first if there is none."""
        opened = self.of(namespace)
        with _blaming(namespace):
            return opened.make(lambda: self._sample(namespace))

    def folder(self, namespace: Namespace) -> TableFolder | None:
        """The folder of the table, where the workers of this session can write files that a landing adds to it; None
        where they can't, where the table takes none, or where there is no table yet. When it is first asked for, what
        earlier runs have left there goes, under the table's lock: whoever asks must not hold that."""
        opened = self.of(namespace)
        if opened.plan is None:
            return None
        with _blaming(namespace), self._clearing.setdefault(namespace, threading.Lock()):
            if namespace in self._out_of_reach:
                return None
            if not opened.table.takes_files():
                return None
            try:
                folder = opened.table.folder()
            except OutOfReach as why:
                self._left_alone(namespace, str(why))
                return None
            if namespace not in self._cleared:
                try:
                    self._try_writing(opened.table, folder)
                    opened.clear_leftovers(folder)
                except OutOfReach as why:
                    self._left_alone(namespace, str(why))
                    return None
                except OSError as error:
                    if folder.store is None:
                        raise
                    self._left_alone(namespace, f"Python's client cannot look into it: {error}")
                    return None
                self._cleared.add(namespace)
            return folder

    def _try_writing(self, table: StateTable, folder: TableFolder) -> None:
        """Once a bucket, for all that are in it are written with the same keys. Raises `OutOfReach`."""
        if folder.store is None or (tried := (folder.store, folder.path.split("/")[0])) in self._tried:
            return
        table.try_writing(folder)
        self._tried.add(tried)

    def _left_alone(self, namespace: Namespace, why: str) -> None:
        """In this run workers write no file into this table's folder."""
        self._out_of_reach.add(namespace)
        _log.warning("READs wait as rows, which is slower than files", collection=str(namespace), why=why)

    def keys_within(self, namespace: Namespace, target: Target) -> Sequence[str]:
        """The keys of the table's rows in the target, and perhaps that of the id before it."""
        opened = self.of(namespace)
        with _blaming(namespace):
            if opened.plan is None:
                return ()
            least, most = span_of(target)
            found = opened.table.keys(None if most is None else [(least, most)])
            keys: list[str] = found.toArrow()["_key"].to_pylist()
            return keys

    def learn(self, namespace: Namespace) -> TablePlan:
        """The plan of the table, with the columns that a sample finds by the present rules about fields: those of READs
        that come before their table has any would lie in `_rescued_data`."""
        opened = self.of(namespace)
        with opened.lock, _blaming(namespace):
            return opened.grow(self._sample(namespace))

    def make_all(self, namespaces: Sequence[Namespace], threads: int) -> list[TableUnusable]:
        """Make the tables that are missing, so many ``threads`` side by side; returns what is wrong with those that
        cannot be made."""
        return _faults(self.plan, namespaces, threads)

    def learn_all(self, namespaces: Sequence[Namespace], threads: int) -> list[TableUnusable]:
        """`learn` the columns of these tables, as `make_all` makes them."""
        return _faults(self.learn, namespaces, threads)

    def look(self, namespace: Namespace, mark: TableMark | None) -> TableMark | None:
        """The newest version of the table; None without a table. Raises TableUnusable where somebody else has changed
        its rows since ``mark``."""
        opened = self.of(namespace)
        with _blaming(namespace):
            return opened.table.look(mark)

    @contextmanager
    def landing(self, namespace: Namespace) -> Iterator[OpenTable]:
        """The table, made if need be, for one landing."""
        opened = self.of(namespace)
        with opened.lock, _blaming(namespace):
            opened.make(lambda: self._sample(namespace))
            yield opened


def _faults(
    do: Callable[[Namespace], object], namespaces: Sequence[Namespace], threads: int
) -> list[TableUnusable]:
    """Do it of all of these, so many ``threads`` side by side; what is wrong with those that it cannot be done of."""

    def done(namespace: Namespace) -> TableUnusable | None:
        try:
            do(namespace)
        except TableUnusable as fault:
            return fault
        return None

    if not namespaces:
        return []
    with ThreadPoolExecutor(min(threads, len(namespaces)), "tables") as pool:
        return [fault for fault in pool.map(done, namespaces) if fault is not None]


@contextmanager
def _blaming(namespace: Namespace) -> Iterator[None]:
    """Raises TableUnusable where an error within is one of this table."""
    try:
        yield
    except Exception as error:
        if (fault := fault_of(namespace, error)) is not None and fault is not error:
            raise fault from error
        raise


def _folders(files: Any, path: Any) -> list[Any]:
    """The folders in a folder, as Hadoop's paths. It is listed, not matched: taken as a pattern, a path with brackets
    or stars would mean other folders."""
    return [status.getPath() for status in files.listStatus(path) if status.isDirectory()]
