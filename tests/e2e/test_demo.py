"""``make demo``: the product's main job from nothing, small, on the session of the tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from snapshotter.demo.demo import run_demo
from snapshotter.errors import EXIT_OK
from snapshotter.progress_view import SilentView

DOCUMENTS = 3_000


@dataclass
class Told(SilentView):
    """What the demo says, line by line."""

    lines: list[str] = field(default_factory=list)

    def message(self, text: str) -> None:
        self.lines.append(text)


def test_the_demo_ends_with_a_table_that_is_equal(spark: SparkSession) -> None:
    """It shows the signal that it inserts, backfills while writers change the shop, and ends with code 0 and a summary:
    what was read and landed, how fast, what was written meanwhile, the lag, and that collection and table are equal."""
    told = Told()
    assert run_demo(DOCUMENTS, told, rate=100, spark=spark) == EXIT_OK
    (signal,) = (line for line in told.lines if "execute-snapshot" in line)
    assert '"data-collections": ["shop.orders"]' in signal
    backfilled, reads, meanwhile, verified = told.lines[-4:]
    read = re.fullmatch(r"backfilled +([\d,]+) documents, (\d+) windows, [\d.]+ s: ([\d,]+)/s", backfilled)
    split = re.fullmatch(r"READs +([\d,]+) landed, ([\d,]+) dropped in favour of streamed changes", reads)
    assert read is not None
    assert split is not None
    assert number(read[1]) == number(split[1]) + number(split[2])
    # Writers delete and insert while it is read: about as many as were loaded.
    assert number(read[1]) > DOCUMENTS // 2
    assert number(read[2]) > 0
    assert number(read[3]) > 0
    changes = re.fullmatch(
        r"meanwhile +([\d,]+) changes were written; lag of the stream at most \d+ s", meanwhile
    )
    assert changes is not None
    assert number(changes[1]) > 0
    assert re.fullmatch(r"verify +[\d,]+ documents: collection and table are equal", verified)


def number(text: str) -> int:
    return int(text.replace(",", ""))
