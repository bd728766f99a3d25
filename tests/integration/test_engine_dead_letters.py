"""What cannot be processed, on a real engine: the engine stops at it, or it goes to the dead letters and hides nothing.

A rename that lets two fields meet is what fails of documents that a real MongoDB stores; whatever else it stores lands
(`test_engine_odd_documents`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import bson
import pytest
from delta.exceptions import ConcurrentTransactionException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from snapshotter.api import Snapshotter
from snapshotter.cli.app import app
from snapshotter.core.values.progress import Progress
from snapshotter.engine.dead_letters import NEXT_STEP
from snapshotter.errors import describe
from snapshotter.landing.buried import BuriedLetters
from snapshotter.landing.targets import dead_letters
from snapshotter.reading.document_errors import DocumentError
from snapshotter.state.progress_store import ProgressStore
from tests.support.commands import run, share
from tests.support.engines import SECONDS, Lab, lab, limits, quiet_rereads
from tests.support.sources import ROOT
from tests.support.tables import rows

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]

MODE = "event.processing.failure.handling.mode"
SECRET = "planted-in-what-fails"


def renaming(lab: Lab, mode: str | None, **options: object) -> Lab:
    """An engine that calls ``name`` ``called``, leaves ``mail`` out, and hashes ``phone``."""
    people = lab.name("people")
    given: dict[str, object] = {
        "field__renames": f"{people}.name:called",
        "field__exclude__list": f"{people}.mail",
        "engine__field__hash__list": f"{people}.phone",
        "engine__field__hash__salt": "a secret of sixteen",
        **options,
    }
    if mode is not None:
        given[MODE] = mode
    return lab.with_options("cluster_time", **given)


def sound(number: int, **more: Any) -> dict[str, Any]:
    return {"_id": number, "name": f"n{number}", **more}


def bad(number: Any, **more: Any) -> dict[str, Any]:
    """Its renamed field meets another."""
    return {"_id": number, "name": "a", "called": "b", "mail": SECRET, "phone": SECRET, **more}


def letters(lab: Lab) -> list[dict[str, Any]]:
    """The table of dead letters, as an independent reader sees it."""
    path = lab.state / "dead_letters"
    found = rows(path) if path.exists() else []
    return sorted(found, key=lambda row: (row["stage"], row["_id"] or "", row["ts_ms"]))


def called(lab: Lab) -> dict[str, Any]:
    return {row["_id"]: row["called"] for row in lab.rows("people")}


@contextmanager
def stopping(lab: Lab) -> Iterator[tuple[Snapshotter, list[DocumentError]]]:
    """An engine that ends by itself; why is in the list, behind the block."""
    found: list[DocumentError] = []
    try:
        with lab.running() as engine:
            yield engine, found
    except DocumentError as error:
        found.append(error)
    assert len(found) == 1


def test_by_default_the_engine_stops_at_an_event_and_names_it(lab: Lab) -> None:
    """Without `event.processing.failure.handling.mode`: collection, id, position and reason; nothing of its table lands
    before that, so nothing is lost: with another mode the next start goes on, and what is sound is in the table."""
    renaming(lab, None)
    people = lab.collection("people")
    people.insert_many([sound(n) for n in range(3)])
    with stopping(lab) as (engine, raised):
        engine.wait("initial", SECONDS)
        people.insert_many([sound(10), bad(11), sound(12)])
        engine.catch_up(SECONDS)
    text = str(raised[0])
    assert f"{lab.name('people')}: an event (_id " in text
    assert '{"$numberInt": "11"}' in text
    assert "position " in text
    assert "field.renames" in text
    found = describe(raised[0])
    assert (found.failure, found.condition, found.exit_code) == ("schema", "unprocessable-document", 3)
    assert not found.retriable
    status = lab.status()
    assert status.error is not None
    assert status.error.condition == "unprocessable-document"
    assert letters(lab) == []
    assert set(called(lab)) == {0, 1, 2}
    renaming(lab, "warn")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert set(called(lab)) == {0, 1, 2, 10, 12}
    assert [row["_id"] for row in letters(lab)] == ['{"$numberInt": "11"}']


def test_what_fails_is_buried_and_hides_nothing(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    """In the table of dead letters with all that is known, behind the rules about fields; in the log, the status, the
    figures and a notification. The row of its key stays as the newest sound event has left it, also where that is of
    the same batch, and a later one lands as ever."""
    renaming(lab, None, errors__tolerance="all")
    people = lab.collection("people")
    people.insert_many([sound(n) for n in range(3)])
    told: list[Any] = []
    with lab.running() as engine:
        engine.on_notification(told.append)
        engine.wait("initial", SECONDS)
        people.replace_one({"_id": 0}, {"_id": 0, "name": "before"})
        people.replace_one({"_id": 0}, bad(0))
        people.insert_one(bad("A-4"))
        people.update_one({"_id": 1}, {"$set": {"called": "met", "mail": SECRET}})
        people.delete_one({"_id": 2})
        engine.catch_up(SECONDS)
        assert called(lab) == {0: "before", 1: "n1"}
        engine.until("the notification", lambda: [n for n in told if n.type == "WRITTEN"], SECONDS)
        people.replace_one({"_id": 0}, sound(0))
        people.update_one({"_id": 1}, {"$unset": {"called": 1}})
        engine.catch_up(SECONDS)
        assert called(lab) == {0: "n0", 1: "n1"}
    found = {row["_id"]: row for row in letters(lab)}
    assert set(found) == {'{"$numberInt": "0"}', '"A-4"', '{"$numberInt": "1"}'}
    assert {row["stage"] for row in found.values()} == {"stream", "lookup"}
    row = found['"A-4"']
    assert (row["collection"], row["operation"], row["stage"]) == (lab.name("people"), "insert", "stream")
    assert (row["engine"], row["replayed_at"], row["size"]) == (
        f"engine-{lab.database}",
        None,
        len(row["bytes"]),
    )
    assert row["_key"] is not None
    assert row["_cluster_time"] > 0
    assert "becomes 'called'" in row["error"]
    kept = bson.decode(row["bytes"])
    assert set(kept) == {"_id", "name", "called", "phone"}
    assert len(kept["phone"]) == 64
    report = lab.status().dead_letters
    assert report is not None
    assert (report.total, report.waiting, report.next_step) == (3, 3, NEXT_STEP)
    figures = lab.status().metrics["engine"]
    counts = figures["dead_letters_total"]
    assert isinstance(counts, dict)
    assert sum(counts.values()) == 3
    assert figures["dead_letters_waiting"] == 3
    said = capfd.readouterr()
    assert (said.out + said.err).count("went to the dead letters") == 3
    written = [content for path in lab.folder.rglob("*") if path.is_file() for content in [path.read_bytes()]]
    assert not any(SECRET.encode() in content for content in written)
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize("mode", ["skip", pytest.param("ignore", marks=pytest.mark.thorough)])
def test_reads_that_fail_are_buried_and_no_row_of_theirs_goes(
    lab: Lab, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A load reads all others and completes. A read with reconcile deletes what is gone at the source, and not the row
    of a document that was there and could not be processed: with ``skip`` and ``ignore`` without a warning."""
    renaming(lab, mode)
    lab.tune = limits(chunk_docs=4, windows=2)
    people = lab.collection("people")
    people.insert_many([bad(n) if n in (3, 4) else sound(n) for n in range(10)])
    with lab.running() as engine:
        done = engine.wait("initial", SECONDS)
        assert done.tasks[0].rows == 8
        assert set(called(lab)) == {0, 1, 2, 5, 6, 7, 8, 9}
        assert [(r["stage"], r["request"]) for r in letters(lab)] == [("read", "initial")] * 2
        assert {r["_id"] for r in letters(lab)} == {'{"$numberInt": "3"}', '{"$numberInt": "4"}'}
        people.replace_one({"_id": 5}, bad(5))
        people.delete_one({"_id": 6})
        engine.catch_up(SECONDS)
        assert called(lab)[5] == "n5"
        name = engine.execute_snapshot(lab.name("people"), reconcile=True)
        done = engine.wait(name, SECONDS)
        assert (done.tasks[0].deleted, done.tasks[0].superseded) == (0, 0)
        assert set(called(lab)) == {0, 1, 2, 5, 7, 8, 9}
    said = capfd.readouterr()
    lines = [line for line in (said.out + said.err).splitlines() if "went to the dead letters" in line]
    assert all("[debug" in line for line in lines)
    assert not lines or mode == "skip", "and then only where debug lines are shown"
    assert lab.status().metrics["snapshot"]["number_of_erroneous_events"] == 5


def test_by_default_the_engine_stops_at_a_read_and_goes_on_once_it_is_mended(lab: Lab) -> None:
    """The error names the document; the request is not given up, and goes on once the document is corrected."""
    renaming(lab, None)
    people = lab.collection("people")
    people.insert_many([sound(0), bad(1), sound(2)])
    with stopping(lab) as (engine, raised):
        engine.wait("initial", SECONDS)
    assert 'a document that was read (_id {"$numberInt": "1"})' in str(raised[0])
    people.replace_one({"_id": 1}, sound(1))
    with lab.running() as engine:
        task = engine.wait("initial", SECONDS).tasks[0]
        assert task.rows + task.superseded == 3
    assert set(called(lab)) == {0, 1, 2}


def test_dead_letters_are_listed_shown_and_replayed(
    lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a running engine. A replay reads the documents again by their ids: what has been corrected lands, what
    fails again is another dead letter; either way the old ones are marked, and no longer waiting."""
    share(spark, monkeypatch)
    renaming(lab, "warn", signal__data__collection=f"{lab.database}.signals")
    people = lab.collection("people")
    people.insert_many([sound(0), bad(1), bad("A-2")])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        listed = json.loads(run(lab, "dead-letters list", "--json").stdout)
        assert {letter["_id"] for letter in listed} == {'{"$numberInt": "1"}', '"A-2"'}
        one = next(letter for letter in listed if letter["_id"] == '"A-2"')
        text = run(lab, "dead-letters list", "--collection", lab.name("people"), "--limit", "1").stdout
        assert len(text.splitlines()) == 1
        shown = json.loads(run(lab, "dead-letters show", one["id"][:6], "--json").stdout)
        assert json.loads(shown["document"])["called"] == "b"
        assert SECRET not in str(shown)
        assert one["id"] in run(lab, "dead-letters show", one["id"]).stdout
        assert run(lab, "dead-letters show", "none").exit_code == 3
        wrong = run(lab, "dead-letters list", "--collection", lab.name("poeple"))
        assert (wrong.exit_code, f"(near it: {lab.name('people')}" in wrong.stderr) == (2, True)
        people.replace_one({"_id": "A-2"}, {"_id": "A-2", "name": "mended"})
        engine.catch_up(SECONDS)
        done = run(lab, "dead-letters replay", "--wait", "--json")
        assert done.exit_code == 0
        (request,) = json.loads(done.stdout)["requests"]
        waiting = json.loads(run(lab, "dead-letters list", "--json").stdout)
        assert [(letter["_id"], letter["request"]) for letter in waiting] == [
            ('{"$numberInt": "1"}', request)
        ]
        everything = json.loads(run(lab, "dead-letters list", "--all", "--json").stdout)
        assert [letter["replayed_by"] for letter in everything].count(request) == 2
    assert {row["called"] for row in lab.rows("people")} == {"n0", "mended"}


def test_the_commands_of_the_pages_work(
    lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of docs/recovery.md and docs/dead-letters.md, in their order, as they are copied: what was corrected is in
    the table when they are done, and nothing waits any more."""
    share(spark, monkeypatch)
    renaming(lab, "skip")
    people = lab.collection("people")
    people.insert_many([sound(0), bad(1)])
    page = (ROOT / "docs" / "recovery.md").read_text()
    section = page.partition("## What cannot be processed\n")[2].partition("\n## ")[0]
    texts = [section, (ROOT / "docs" / "dead-letters.md").read_text()]
    blocks = [block for text in texts for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)]
    commands = [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]
    assert len(commands) == 5
    named = {"shop.toml": str(lab.config_file()), "shop.orders": lab.name("people")}
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        people.replace_one({"_id": 1}, sound(1))
        engine.catch_up(SECONDS)
        for command in commands:
            result = CliRunner().invoke(app, [named.get(word, word) for word in command])
            assert result.exit_code == 0, (command, result.output)
        assert json.loads(run(lab, "dead-letters list", "--json").stdout) == []
    assert called(lab) == {0: "n0", 1: "n1"}


def test_a_batch_that_is_repeated_buries_nothing_twice(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between dead letters and progress: the batch comes again, and its letters are there once, marked by its
    number. A new engine counts those that an earlier one has written."""
    renaming(lab, "skip", retriable__restart__connector__wait__ms=10)
    people = lab.collection("people")
    people.insert_one(sound(0))
    real, failed = ProgressStore.save, list[int]()

    def save(store: ProgressStore, progress: Progress) -> None:
        if not failed and (lab.state / "dead_letters").exists():
            failed.append(progress.batch_id)
            raise OSError("planted")
        real(store, progress)

    monkeypatch.setattr(ProgressStore, "save", save)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        people.insert_many([bad(1), sound(2)])
        engine.catch_up(SECONDS)
    assert [row["batch"] for row in letters(lab)] == failed
    assert set(called(lab)) == {0, 2}
    counts = lab.status().metrics["engine"]["dead_letters_total"]
    assert isinstance(counts, dict)
    assert counts["stream"] == 1
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    report = lab.status().dead_letters
    assert report is not None
    assert (report.total, report.waiting, report.collection) == (1, 1, lab.name("people"))


def test_a_commit_of_letters_whose_answer_is_lost_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta tried again, and met it: the run goes on, and the letter is counted and told."""
    renaming(lab, "skip")
    people = lab.collection("people")
    people.insert_one(sound(0))
    append = dead_letters.append

    def met(*given: Any, **more: Any) -> None:
        append(*given, **more)
        raise ConcurrentTransactionException("somebody has committed under this id")

    monkeypatch.setattr(dead_letters, "append", met)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        people.insert_many([bad(1), sound(2)])
        engine.catch_up(SECONDS)
    status = lab.status()
    assert status.restarts.count == 0
    assert len(letters(lab)) == 1
    assert status.dead_letters is not None
    assert status.dead_letters.total == 1


def test_an_event_behind_a_position_that_was_set_back_has_one_letter(lab: Lab, spark: SparkSession) -> None:
    """While that waits. Once it was replayed the event gets another: what came before it has landed anew."""
    renaming(lab, "skip")
    people = lab.collection("people")
    people.insert_one(sound(0))
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        before = engine.catch_up(SECONDS)
        people.insert_many([bad(1), bad(2), sound(3)])
        engine.catch_up(SECONDS)
    first, _ = letters(lab)
    for new, replayed in ((9, []), (10, [first["id"]])):
        BuriedLetters(spark, str(lab.state / "dead_letters")).mark(replayed, "r", 1)
        assert run(lab, "position reset", "--to", str(before)).exit_code == 0
        with lab.running() as engine:
            engine.catch_up(SECONDS)
            people.insert_one(bad(new))  # what is new is not hidden
            engine.catch_up(SECONDS)
    ids = [letter["_id"] for letter in letters(lab)]
    assert [ids.count(f'{{"$numberInt": "{n}"}}') for n in (1, 2, 9, 10)] == [2, 1, 1, 1], ids


def test_ids_that_are_read_again_stop_the_engine_too(lab: Lab) -> None:
    """Without full documents each update is read again by its id, which nobody has asked for: the engine stops at it
    all the same, and with another mode it goes on."""
    renaming(lab, None, capture__mode="change_streams")
    people = lab.collection("people")
    people.insert_many([sound(0), sound(1)])
    with stopping(lab) as (engine, raised):
        engine.wait("initial", SECONDS)
        people.update_one({"_id": 0}, {"$set": {"called": "met"}})
        engine.until("the end", lambda: False, SECONDS)
    assert "a document that was read" in str(raised[0])
    renaming(lab, "skip", capture__mode="change_streams")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        quiet_rereads(engine)
        engine.catch_up(SECONDS)
    assert [row["stage"] for row in letters(lab)] == ["read"]
    assert called(lab) == {0: "n0", 1: "n1"}
