"""What changelogs and topics cost a backfill:
``python -m bench.told [--documents 300000] [--rounds 5] [--only KIND] [--beside FOLDER]``.

Orders are read into a table alone, into a table and its changelog, and into a table and a topic of a broker on this
machine: each in a process of its own, whose last round is the warm one. `--beside` names another checkout, which does
the same after each. Signal to last row in the tables, which must have all of them (``seconds``), and to the last record
that the broker has (``fed_seconds``). JSON lines: those of each round, the JVM's peak memory, bytes of the changelog's
files.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from bench.command import by_turns
from bench.peers.process import run_rounds
from bench.workload import load_orders
from snapshotter.testing.kafka import start_kafka
from snapshotter.testing.mongodb import start_mongodb

DB, COLLECTION = "bench_told", "orders"
ALONE, CHANGELOG, TOPIC = "alone", "changelog", "topic"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=[ALONE, CHANGELOG, TOPIC])
    asked, checkouts = by_turns(parser)
    with start_mongodb() as mongo, start_kafka() as kafka:
        load_orders(mongo.uri, DB, COLLECTION, asked.documents)
        kafka.create_topic(f"bench.{DB}.{COLLECTION}")
        topics = {"engine.topics.enabled": "true", "engine.topics.bootstrap.servers": kafka.bootstrap}
        topics["topic.prefix"] = "bench"
        kinds = {ALONE: {}, CHANGELOG: {"delta.changelog.enabled": "true"}, TOPIC: topics}
        for kind, options in kinds.items():
            for checkout in checkouts if asked.only in (None, kind) else ():
                found = measured(checkout, mongo.uri, options, asked.documents, asked.rounds)
                print(json.dumps({"checkout": checkout.name, "kind": kind, **found}), flush=True)


def measured(
    checkout: Path, uri: str, options: dict[str, str], documents: int, rounds: int
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-told-") as folder:
        plan = {"work": "backfill", "uri": uri, "db": DB, "coll": COLLECTION, "documents": documents}
        plan |= {"rounds": rounds, "folder": folder, "options": options}
        code = f"PYTHONPATH={checkout}"  # the workers', too
        command = ["env", code, sys.executable, "-m", "bench.ours_job", json.dumps(plan)]
        found: list[Any] = [*run_rounds("snapshotter", command, timeout_s=2_400, folder=checkout)]
        figures = {
            **{what: [one[what] for one in found] for what in ("seconds", "fed_seconds")},
            "per_second": round(documents / found[-1]["seconds"]),
            "jvm_peak_mb": found[-1]["jvm_peak_mb"],
        }
        if "delta.changelog.enabled" not in options:
            return figures
        table = DeltaTable(str(Path(folder) / f"round-{rounds}" / "changelog" / DB / COLLECTION))
        files = table.get_add_actions(flatten=True)
        if (rows := sum(files.column("num_records").to_pylist())) != documents:
            raise RuntimeError(f"the changelog has {rows} rows, the collection {documents} documents")
        return {**figures, "changelog_bytes": sum(files.column("size_bytes").to_pylist())}


if __name__ == "__main__":
    main()
