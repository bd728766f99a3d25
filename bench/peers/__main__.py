"""`python -m bench.peers`: ours, every peer and every reference figure, on one mongod and one collection, in one
run.

Prints figures as they come and the tables at the end, and writes `peers.json` and `peers.png` into
`--output`; a run of a part (`--only`) writes where it is told to, and nowhere else. Without `--uri` a MongoDB
is started and thrown away. The order matters: copies first, then the changes are made, once, and everyone
drains the same ones; an engine that goes on comes last, with a MongoDB of its own. A peer that fails is named,
and does not take the others' figures with it.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import catching_up, ours, plot, reference
from bench.clock import next_position
from bench.measurement import ROUNDS, Measurement, in_turns, quiet_load
from bench.peers import debezium, mongo_spark
from bench.peers.build import PeerBuildError
from bench.peers.process import PeerRunError
from bench.spark import environment_kept, session
from bench.workload import PARTS, load_orders, mixed_changes
from snapshotter.testing.mongodb import start_mongodb

DATABASE, COLLECTION = "bench_shop", "orders"
BASELINES = (f"chunk {debezium.DEFAULT_CHUNK:,}", "Debezium", "with lookup")


class Run:
    """One run: what has been measured and what has failed so far."""

    def __init__(self, uri: str, folder: Path, arguments: argparse.Namespace) -> None:
        self.figures: list[Measurement] = []
        self.failures: list[str] = []
        self._place = (uri, DATABASE, COLLECTION)
        self._folder = folder
        self._documents: int = arguments.documents
        self._changes: int = arguments.changes
        self._rounds: int = arguments.rounds

    def everything(self, *, ours_too: bool, peers: bool, references: bool) -> None:
        load_orders(*self._place, self._documents)
        if ours_too:
            self._ours()
        if peers:
            self._copy_peers()
        if references:
            with environment_kept():
                self._references()
        self._streams(ours_too=ours_too, peers=peers, references=references)

    def _streams(self, *, ours_too: bool, peers: bool, references: bool) -> None:
        """The same changes for everyone. The client that only looks documents up goes before ours, behind it, and last:
        some minutes later a machine may be faster or slower by a third."""
        start = next_position(self._place[0])
        events = mixed_changes(*self._place, self._changes, existing=self._documents).events
        client = partial(reference.change_stream, *self._place, start, events, lookup=True)
        looked_up = [client()] if references else []
        if ours_too:
            folder = self._folder / "ours"
            self._take(lambda: ours.streaming(*self._place, events, folder, rounds=self._rounds))
        if references:
            looked_up.append(client())
        if peers:
            table, rounds = self._folder / "copy", self._rounds
            self._take(lambda: debezium.streaming(*self._place, start, events, rounds=rounds))
            self._take(lambda: mongo_spark.streaming(*self._place, start, events, table, rounds=rounds))
        if references:
            self._take(lambda: reference.change_stream(*self._place, start, events))
            self._take(lambda: in_turns([*looked_up, client()]))

    def _ours(self) -> None:
        documents, rounds = self._documents, self._rounds
        self._take(lambda: ours.backfill(*self._place, documents, self._folder / "ours", rounds=rounds))

    def _copy_peers(self) -> None:
        table, documents, rounds = self._folder / "copy", self._documents, self._rounds
        self._take(lambda: debezium.incremental_snapshot(*self._place, documents, rounds=rounds))
        self._take(lambda: debezium.tuned_snapshot(*self._place, documents, rounds=rounds))
        self._take(lambda: mongo_spark.bulk_copy(*self._place, documents, table, rounds=rounds))

    def beside_writes(self, *, peers: bool) -> None:
        """Last, because its writers change the collection that everyone else was measured on."""
        documents, rounds, folder = self._documents, self._rounds, self._folder / "beside"
        self._take(lambda: ours.backfill_beside_writes(*self._place, documents, folder, rounds=rounds))
        if peers:
            table = self._folder / "copy-beside"
            self._take(
                lambda: mongo_spark.bulk_copy_beside_writes(*self._place, documents, table, rounds=rounds)
            )

    def going_on(self) -> None:
        """An engine that goes on, beside the client, by turns. What was measured before outlives it."""
        rounds = min(self._rounds, PARTS)
        try:
            self.figures += catching_up.measured(self._documents, self._changes, rounds)
        except Exception as error:  # noqa: BLE001 - it is named, and the exit code tells
            self.failures.append((str(error).splitlines() or [type(error).__name__])[0])
            print(f"FAILED: {error}", flush=True)

    def copies(self) -> None:
        """What writes beside it cost a copy: alone and beside them, ours and a bulk copy."""
        load_orders(*self._place, self._documents)
        table, documents, rounds = self._folder / "copy", self._documents, self._rounds
        self._ours()
        self._take(lambda: mongo_spark.bulk_copy(*self._place, documents, table, rounds=rounds))
        self.beside_writes(peers=True)

    def _references(self) -> None:
        self._take(lambda: reference.raw_cursor(*self._place))
        rows = min(reference.COMMIT_ROWS, self._documents // 4)
        spark = session("references", self._folder)
        try:
            self._take(lambda: reference.spark_read(spark, *self._place, rounds=self._rounds))
            for how in reference.LANDINGS:
                table = str(self._folder / how.replace(" ", "-"))
                self._take(partial(reference.landing, spark, *self._place, table, how, rows=rows))
        finally:
            spark.stop()

    def _take(self, work: Callable[[], Measurement]) -> None:
        try:
            figure = work()
        except (PeerBuildError, PeerRunError) as error:
            said = str(error).splitlines()
            self.failures.append(f"{said[0]} {said[-1]}")  # what lies between names this machine's folders
            print(f"FAILED: {error}", flush=True)
            return
        self.figures.append(figure)
        print(f"{figure['what']}: {figure['name']}: {figure['rate']:,.0f}/s", flush=True)


def main() -> int:
    """Exit 1 when a peer could not be built or run."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        help="each peer repeats its work; the median of the last three counts",
    )
    parser.add_argument("--uri", help="a replica set whose database bench_shop may be dropped")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", choices=("ours", "peers", "references", "copies"))
    parser.add_argument("--busy", action="store_true", help="measure although others are at work")
    arguments = parser.parse_args()
    load = quiet_load(busy=arguments.busy)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        if arguments.uri:
            run = measure(arguments.uri, Path(folder), arguments)
        else:
            with start_mongodb() as mongodb:
                run = measure(mongodb.uri, Path(folder), arguments)
        if not arguments.only:
            run.going_on()
    about = {"documents": arguments.documents, "changes": arguments.changes, "failures": run.failures}
    about |= {"rounds": arguments.rounds, "load_before": load}
    # The results that are published are those of whole runs.
    if output := arguments.output or (None if arguments.only else plot.RESULTS):
        plot.save(run.figures, output / "peers.json", **about)
        plot.plot(run.figures, output / "peers.png", baselines=BASELINES)
    print("\n" + plot.table(run.figures, baselines=BASELINES))
    return 1 if run.failures else 0


def measure(uri: str, folder: Path, arguments: argparse.Namespace) -> Run:
    run = Run(uri, folder, arguments)
    if arguments.only == "copies":
        run.copies()
        return run
    chosen = {arguments.only} if arguments.only else {"ours", "peers", "references"}
    run.everything(ours_too="ours" in chosen, peers="peers" in chosen, references="references" in chosen)
    if "ours" in chosen:
        run.beside_writes(peers="peers" in chosen)
    return run


if __name__ == "__main__":
    sys.exit(main())
