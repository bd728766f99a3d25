"""What a changelog costs a backfill: ``python -m bench.told [--documents 300000] [--rounds 5] [--beside FOLDER]``.

Orders are read into a table alone, and into a table and its changelog: each in a process of its own, whose last round
is the warm one. `--beside` names another checkout, which does the same after each. Signal to last row in both tables,
which must have all of them. JSON lines: seconds of each round, the JVM's peak memory, bytes of the changelog's files.
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
from snapshotter.testing.mongodb import start_mongodb

DB, COLLECTION = "bench_told", "orders"
KINDS = {"alone": "false", "with a changelog": "true"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked, checkouts = by_turns(parser)
    with start_mongodb() as mongo:
        load_orders(mongo.uri, DB, COLLECTION, asked.documents)
        for kind in KINDS:
            for checkout in checkouts:
                found = measured(checkout, mongo.uri, kind, asked.documents, asked.rounds)
                print(json.dumps({"checkout": checkout.name, "kind": kind, **found}), flush=True)


def measured(checkout: Path, uri: str, kind: str, documents: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-told-") as folder:
        plan = {"work": "backfill", "uri": uri, "db": DB, "coll": COLLECTION, "documents": documents}
        plan |= {"rounds": rounds, "folder": folder, "options": {"delta.changelog.enabled": KINDS[kind]}}
        code = f"PYTHONPATH={checkout}"  # the workers', too
        command = ["env", code, sys.executable, "-m", "bench.ours_job", json.dumps(plan)]
        found: list[Any] = [*run_rounds(f"snapshotter ({kind})", command, timeout_s=2_400, folder=checkout)]
        figures = {
            "seconds": [one["seconds"] for one in found],
            "per_second": round(documents / found[-1]["seconds"]),
            "jvm_peak_mb": found[-1]["jvm_peak_mb"],
        }
        if kind == "alone":
            return figures
        table = DeltaTable(str(Path(folder) / f"round-{rounds}" / "changelog" / DB / COLLECTION))
        files = table.get_add_actions(flatten=True)
        if (rows := sum(files.column("num_records").to_pylist())) != documents:
            raise RuntimeError(f"the changelog has {rows} rows, the collection {documents} documents")
        return {**figures, "changelog_bytes": sum(files.column("size_bytes").to_pylist())}


if __name__ == "__main__":
    main()
