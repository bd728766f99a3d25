"""Collections landed side by side, each for itself: what is wrong with one comes back as a value, all others land."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from snapshotter.core.values.suspension import TableUnusable
from snapshotter.core.values.window import WindowId
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.targets.target import CollectionContents, Contents, Landed, LandedCollection
from streaming.delta.local_checkpoints import is_lost
from streaming.delta.new_files import FileGone, is_new_file
from streaming.error_text import said_by
from streaming.namespaces import Namespace

LandOne = Callable[[CollectionContents], LandedCollection]


class ReadBuffersLost(Exception):
    """Blocks of a READ buffer died with their executor, or its files are gone: the windows that held it must be read
    again."""

    def __init__(self, windows: frozenset[WindowId]) -> None:
        super().__init__(
            f"READ buffers of {', '.join(map(str, sorted(windows)))} were lost: with their executor, or their files"
        )
        self.windows = windows


def lost_reads(batch: CollectionContents, error: BaseException) -> frozenset[WindowId]:
    """The windows whose READs an error says are gone: a file that had to be read, or blocks of their frame. Those of
    the batch's own events are not in it: to read windows again brings none of these back."""
    windows = frozenset(closing.window.id for closing in batch.closings)
    said = said_by(error)
    gone = "FILE_NOT_EXIST", FileGone.__name__  # as Spark says it, and as a worker does
    if isinstance(error, FileGone) or (any(name in said for name in gone) and is_new_file(said)):
        return windows
    return frozenset(window for window in windows if is_lost(batch.buffers[window].frame, said))


@contextmanager
def naming_lost_buffers(batch: CollectionContents) -> Iterator[None]:
    """Raises ReadBuffersLost for an error within that says so of what the READs of ``batch`` lie in."""
    try:
        yield
    except Exception as error:
        if lost := lost_reads(batch, error):
            raise ReadBuffersLost(lost) from error
        raise


def land_each(contents: Contents, land_one: LandOne, blame: Blame, threads: int) -> Landed:
    """Land each collection of ``contents`` by ``land_one``, so many ``threads`` at a time. ``blame`` decides which
    errors are one collection's own. Any other error is raised, once all collections are done."""
    work = contents.collections
    if not work:
        return Landed()
    with ThreadPoolExecutor(min(threads, len(work)), "land") as pool:
        futures = {n: pool.submit(land_one, work[n]) for n in sorted(work)}
    landed: dict[Namespace, LandedCollection] = {}
    lost: set[WindowId] = set()
    faults: list[TableUnusable] = []
    failed: dict[Namespace, BaseException] = {}
    for namespace, future in futures.items():
        error = future.exception()
        if error is None:
            landed[namespace] = future.result()
        elif isinstance(error, ReadBuffersLost):
            lost |= error.windows
        elif fault := blame.fault_of(namespace, error):
            faults.append(fault)
        else:
            failed[namespace] = error
    _raise_first(failed, blame, others=bool(landed or contents.landed))
    return Landed(landed, frozenset(lost), tuple(faults))


def _raise_first(failed: Mapping[Namespace, BaseException], blame: Blame, *, others: bool) -> None:
    for namespace, error in failed.items():
        blame.note(namespace, error, others=others and len(failed) == 1)
        raise error
