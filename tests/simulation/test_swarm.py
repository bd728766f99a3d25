"""Random worlds: every fault in every mixture. A failure names the scenario; its seed replays it exactly."""

from __future__ import annotations

import pytest

from .faults import Scenario, swarm
from .world import World

_WORLDS = 20
MET = {
    # The repair was stopped in a batch that a replay made without it; it came again, under its name.
    "a stopped repair that comes again later": Scenario(
        seed=702335, strategy="insert_delete", keys=4, preloaded=0.9, chunk_docs=1, reread_ids=3, rereads_max=3,
        ticks=300, writes=0.1, filtered=0.0, blocking=0.5509, resumes=0.02, stops=0.0191, together=0.4542,
        kept=1, crash=0.0173, read_fails=0.1614, read_fails_definitely=0.0406, hidden=0.0079, missing=0.1152,
        lag=10, behind=30, yields=True, paced=True, altered=0.0168, removed=0.0093, optimized=0.0189, heal=0.02,
        repairs=True, lost=0.2364,
    ),
    # The request was stopped before the next run could ask the commit what its READs had found.
    "a report that ended with a stop": Scenario(
        seed=3052720329, strategy="cluster_time", mode="post-image", keys=15, preloaded=0.9, collation=0.5,
        chunk_docs=5, commit_rows=4, reread_ids=4, attempts=2, ticks=200, writes=0.1, requests=4, filtered=0.0,
        parts=0.2332, pauses=0.0374, resumes=0.02, stops=0.0044, kept=1, drain=0.0012, read_fails=0.1937,
        open_fails=0.0178, open_document_lost=0.024, missing=0.2832, lag=10, behind=10, yields=True, paced=True,
        altered=0.0035, removed=0.0001, stolen=0.0099, optimized=0.01, heal=0.2, late=0.0369,
    ),
    # The restoring read was stopped in the batch that missed a document of its collection.
    "a suspension that comes back": Scenario(
        seed=5019, keys=16, preloaded=0.0, chunk_docs=2, windows_in_flight=1, commit_rows=1, reread_ids=1, attempts=2,
        ticks=300, writes=0.3, requests=1, filtered=0.0, parts=0.0609, impatient=0.5, stops=0.0108, again=0.0128,
        kept=1, restart=0.0033, drain=0.0144, open_fails=0.0738, hidden=0.0298, missing=0.4, lag=3, behind=30,
        drops=0.0364, fills=0.0442, paced=True, stolen=0.006, optimized=0.0074, heal=0.02, lost=0.2862,
    ),
    # A blocking request got its turn where nothing streamed, and the batch that begins it was not asked for.
    "a blocking request beside a suspension": Scenario(
        seed=7255, strategy="cluster_time", mode="post-image", keys=9, chunk_docs=1, windows_in_flight=1, ticks=200,
        writes=0.3, requests=3, filtered=0.0, urgent=0.1826, blocking=0.1171, impatient=0.5, pauses=0.0232,
        resumes=0.02, restart=0.0181, open_fails=0.0013, buffers_lost=0.2524, missing=0.2352, lag=3, fills=0.0178,
        paced=True, altered=0.0185, removed=0.0056, heal=0.02,
    ),
    # A repair was paused, the batch that made it was replayed, and everything was resumed in between.
    "a pause of what a replay makes again": Scenario(
        seed=3992877628, strategy="insert_delete", collections=3, keys=16, preloaded=0.0, chunk_docs=4, commit_rows=4,
        reread_ids=4, ticks=300, writes=0.3, requests=4, filtered=0.0, parts=0.084, urgent=0.271, pauses=0.0372,
        together=0.0832, kept=1, restart=0.0164, read_fails_definitely=0.0472, open_fails=0.0941,
        open_document_lost=0.0031, lag=10, yields=True, paced=True, altered=0.0075, optimized=0.0083, heal=0.2,
        repairs=True, lost=0.0241, late=0.0855,
    ),
    # A window under a filter looked for the table's rows while a batch landed one, and took it for missing at source.
    "a row of the batch in hand": Scenario(
        seed=900002234, strategy="insert_delete", collections=3, keys=13, preloaded=0.9, collation=0.5, chunk_docs=2,
        windows_in_flight=2, attempts=4, ticks=100, writes=0.1, requests=1, filtered=0.2996, urgent=0.5613,
        impatient=0.0, again=0.0086, together=0.6809, kept=0, crash=0.0004, drain=0.0018, read_fails=0.0491,
        read_fails_definitely=0.0311, open_fails=0.0753, buffers_lost=0.0575, open_document_lost=0.0109, lag=3,
        paced=True, optimized=0.0148, heal=0.2, lost=0.07,
    ),
    # A collection was captured no more, and requests of before went on reading it.
    "a request for what is not captured": Scenario(
        seed=900000899, mode="post-image", keys=7, preloaded=0.3, chunk_docs=5, windows_in_flight=4, reread_ids=3,
        attempts=6, ticks=300, writes=0.3, requests=3, filtered=0.0, parts=0.5017, blocking=0.4034, impatient=0.0,
        pauses=0.0364, again=0.0429, kept=1, restart=0.0067, drain=0.0048, read_fails_definitely=0.0456,
        open_document_lost=0.0086, behind=10, altered=0.0151, stolen=0.0053, optimized=0.014, heal=0.2, repairs=True,
        late=0.4646,
    ),
    # An event of before a collection was replaced superseded what a first load read of it after that.
    "an event of before a truncation": Scenario(
        seed=910002185, strategy="insert_delete", keys=17, collation=0.5, chunk_docs=2, windows_in_flight=2, ticks=300,
        writes=0.5, requests=1, filtered=0.3067, impatient=0.5, pauses=0.0362, resumes=0.02, together=0.6019, kept=0,
        crash=0.0013, drain=0.0119, read_fails_definitely=0.0048, buffers_lost=0.0882, open_document_lost=0.008, lag=3,
        behind=30, fills=0.0436, paced=True, removed=0.0045, stolen=0.0076, optimized=0.006, heal=0.02, lost=0.1204,
    ),
    # A restoring read failed, the collection was suspended anew, and the read was resumed behind what it had read.
    "an old cure of a new suspension": Scenario(
        seed=910005057, strategy="cluster_time", mode="post-image", keys=18, preloaded=0.0, collation=0.5,
        chunk_docs=2, windows_in_flight=1, commit_rows=1, reread_ids=1, rereads_max=3, attempts=2, ticks=300,
        writes=0.5, filtered=0.0, urgent=0.379, kept=1, read_fails=0.0877, read_fails_definitely=0.0451,
        open_fails=0.0944, open_document_lost=0.0139, missing=0.3126, lag=10, behind=10, fills=0.0255,
        yields=True, paced=True, removed=0.0031, put_back=0.0002, stolen=0.0094, optimized=0.0007, heal=0.2,
        repairs=True, lost=0.1104, late=0.4862,
    ),
    # A request was stopped and forgotten while its collection was being opened.
    "an answer to a request that is forgotten": Scenario(
        seed=960004763, strategy="insert_delete", mode="post-image", collections=1, keys=17, chunk_docs=1,
        commit_rows=4, rereads_max=3, attempts=4, ticks=300, writes=0.5, requests=3, filtered=0.0, parts=0.3293,
        blocking=0.307, impatient=0.0, pauses=0.0363, resumes=0.02, stops=0.0139, kept=0, drain=0.0018,
        buffers_lost=0.2335, hidden=0.019, lag=3, drops=0.0402, yields=True, paced=True, removed=0.0087,
        optimized=0.0064, heal=0.02, repairs=True, lost=0.1154, late=0.3298,
    ),
    # Changes of what a first load had not come to were lost when it was stopped, and nobody was told.
    "a first load that is stopped": Scenario(
        seed=940000486, collections=3, keys=12, preloaded=0.0, chunk_docs=5, windows_in_flight=4, commit_rows=1,
        reread_ids=4, rereads_max=3, ticks=100, writes=0.1, requests=4, filtered=0.0, parts=0.0802,
        urgent=0.3235, impatient=0.0, pauses=0.018, stops=0.0191, together=0.091, kept=1, drain=0.0018,
        read_fails_definitely=0.0224, hidden=0.001, missing=0.3946, lag=3, fills=0.0223, paced=True,
        put_back=0.0079, optimized=0.0068, heal=0.2, lost=0.1993, late=0.1756,
    ),
}  # fmt: skip
"""Worlds in which something was found that is mended."""


def survive(scenario: Scenario) -> World:
    """Run a world; if an oracle, or the machine itself, objects, say which world it was."""
    world = World(scenario)
    try:
        return world.run()
    except Exception as error:
        error.add_note(f"World(swarm({scenario.seed})).run() replays it: {scenario}")
        raise


@pytest.mark.parametrize("part", range(8))
def test_every_oracle_holds_in_random_worlds(seed: int, part: int) -> None:
    """Whatever goes wrong, READs are of their windows, nothing is lost, and at rest tables equal
    collections."""
    for number in range(_WORLDS):
        survive(swarm((seed + part * _WORLDS + number) % 2**32))


@pytest.mark.parametrize("found", MET.values(), ids=MET)
def test_what_was_found_once_is_tried_each_time(found: Scenario) -> None:
    """These worlds come to rest, whatever the seed of the run is."""
    World(found).run()


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(50))
def test_every_oracle_holds_in_many_more_random_worlds(seed: int, part: int) -> None:
    """The same, at length."""
    for number in range(200):
        survive(swarm((seed + part * 200 + number) % 2**32))


def test_a_seed_decides_everything() -> None:
    """Two worlds of one seed have the same history, entry by entry and commit by commit."""
    one, two = (survive(swarm(7)) for _ in range(2))
    assert one.source.log == two.source.log
    assert one.sink.offsets == two.sink.offsets
    assert one.sink.saved == two.sink.saved
    assert one.tables == two.tables


def test_the_swarm_meets_every_fault() -> None:
    """Each fault strikes in some of the first worlds, so that the oracles have something to judge."""
    missing = {
        "crash", "restart", "drain", "read_fails", "read_fails_definitely", "open_fails", "buffers_lost",
        "open_document_lost", "hidden", "missing", "drops", "fills",
        "pauses", "resumes", "stops", "again", "altered", "removed", "put_back", "stolen", "optimized", "lost", "late",
    }  # fmt: skip
    for number in range(100):
        missing -= set(survive(swarm(number)).faults)
        if not missing:
            return
    pytest.fail(f"no world met {missing}")
