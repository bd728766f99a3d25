"""What a backfill keeps of its speed beside writes, by turns in one JVM.

`bench.peers` measures each kind of work in a process of its own, a few rounds of it, as it must for products that
share nothing. Two such figures lie minutes apart, and differ by what the machine did meanwhile; and the compiler needs
more rounds of a backfill beside writes than of one alone. Here the two kinds take turns until both are warm, on a
collection of about the same size: what a round has inserted is removed behind it, what it has deleted stays away.

    python -m bench.beside [--documents 1000000] [--warm-up 6] [--pairs 5]
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from pymongo import MongoClient
from pyspark.sql import SparkSession

from bench.orders import order_id
from bench.ours_job import backfill, beside, session
from bench.workload import load_orders
from snapshotter.testing.mongodb import start_mongodb

_DB, _ORDERS, _RATE, _SEED = "bench_shop", "orders", 2_000, 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--warm-up", type=int, default=6, help="pairs of rounds that do not count")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of rounds that count")
    asked = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="bench-beside-")
    spark = session("beside")
    try:
        with start_mongodb() as mongo, MongoClient[dict[str, Any]](mongo.uri) as client:
            load_orders(mongo.uri, _DB, _ORDERS, asked.documents)
            plan = {
                "uri": mongo.uri,
                "db": _DB,
                "coll": _ORDERS,
                "folder": folder,
                "rate": _RATE,
                "program": 0,
            }
            pairs = [
                _pair(spark, client, {**plan, "documents": asked.documents}, number)
                for number in range(asked.warm_up + asked.pairs)
            ]
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(_summary(pairs[asked.warm_up :])))


def _pair(
    spark: SparkSession, client: MongoClient[dict[str, Any]], plan: dict[str, Any], number: int
) -> dict[str, Any]:
    """A round alone and a round beside writes: documents a second of each, and the stream's greatest lag."""
    orders = client[_DB][_ORDERS]
    there = orders.count_documents({})  # the writers delete some of the first ones
    alone = backfill(spark, {**plan, "documents": there}, 2 * number)
    written = beside(spark, plan, 2 * number + 1)
    orders.delete_many({"_id": {"$gte": order_id(_SEED, plan["documents"], "objectid")}})
    for turn in (2 * number, 2 * number + 1):
        shutil.rmtree(Path(plan["folder"]) / f"round-{turn}")
    found = {
        "alone": round(there / alone["seconds"]),
        "beside": round(written["documents"] / written["seconds"]),
        "lag_seconds_max": written["lag_seconds_max"],
        "writes_per_second": written["writes_per_second"],
    }
    print(json.dumps({"pair": number, **found}), flush=True)
    return found


def _summary(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of the rounds, the share of one in the other, and the share in each pair."""
    alone, written = (median(pair[kind] for pair in pairs) for kind in ("alone", "beside"))
    return {
        "alone": alone,
        "beside": written,
        "share": round(written / alone, 3),
        "shares": [round(pair["beside"] / pair["alone"], 3) for pair in pairs],
        "lag_seconds_max": max(pair["lag_seconds_max"] for pair in pairs),
        "writes_per_second": median(pair["writes_per_second"] for pair in pairs),
    }


if __name__ == "__main__":
    main()
