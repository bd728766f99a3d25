"""An engine under rules about fields, on real parts: tables, what is compared with them, and every byte it wrote."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import pyarrow.parquet as pq
import pytest

from snapshotter.errors import ConfigurationError, DefiniteError
from snapshotter.verification.verify import verify_collection
from streaming.fields.rules import FieldRules
from streaming.layouts.columns.layout import COLUMNS
from tests.support.engines import SECONDS, Lab, lab, quiet_rereads
from tests.support.mongos import mongos_before
from tests.support.tables import rows as rows_at

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every start of an engine does

SALT = "a secret of sixteen"
NUMBER = 987_654_321_012_345
SECRETS = (
    "planted-in-a-load",
    "planted-by-an-insert",
    "planted-by-an-update",
    "planted-by-a-replace",
    "planted-deep",
)


def person(number: int, secret: str) -> dict[str, Any]:
    """A document whose secrets lie at the top, in documents, in arrays of arrays, and in what fits no column."""
    cards = [{"no": secret, "of": "bank"}, [[{"no": secret}]]]
    odd: Any = {"within": secret} if number % 2 else NUMBER
    return {
        "_id": number,
        "name": f"n{number}",
        "mail": secret,
        "odd": odd,
        "cards": cards,
        "in": {"mail": secret},
    }


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, as it is and, of Parquet, with its pages unpacked."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield str(path), content
            if content[:4] == b"PAR1":
                table = pq.read_table(io.BytesIO(content))
                yield (
                    f"{path} (rows)",
                    json.dumps(table.to_pylist(), default=str, ensure_ascii=False).encode(),
                )


def assert_without(secrets: tuple[str, ...], what: Iterator[tuple[str, bytes]]) -> int:
    """None of the secrets is in any of it, as text or, of a number, as its bytes; returns how much was looked at."""
    seen = 0
    needles = [secret.encode() for secret in secrets]
    needles += [str(NUMBER).encode(), NUMBER.to_bytes(8, "little")]
    for name, content in what:
        seen += 1
        for needle in needles:
            assert needle not in content, f"{needle!r} is in {name}"
    return seen


def left_out(lab: Lab) -> str:
    """The entries for all places where `person` has a secret."""
    return ",".join(f"{lab.database}.people.{name}" for name in ("mail", "odd", "cards.no", "in.mail"))


def test_what_is_left_out_is_in_no_byte_that_an_engine_wrote(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    """After a load, inserts, updates by plain and by dotted keys, replacements, deletes and a read by a signal: not in
    a table, its log or statistics, the state, the status, the outcome of signals, notifications, or what is logged.
    The tables equal their collections, and another collection has the field."""
    lab.with_options(field__exclude__list=left_out(lab), notification__enabled__channels="log,delta")
    people = lab.collection("people")
    people.insert_many([person(n, SECRETS[0]) for n in range(40)])
    lab.collection("others").insert_one({"_id": 1, "mail": "to be seen"})
    told: list[str] = []
    with lab.running() as engine:
        engine.on_notification(lambda one: told.append(repr(one)))
        engine.wait("initial", SECONDS)
        people.insert_many([person(n, SECRETS[1]) for n in range(100, 120)])
        people.update_many({}, {"$set": {"mail": SECRETS[2], "in.mail": SECRETS[2], "seen": True}})
        people.update_many({"_id": {"$lt": 5}}, {"$set": {"cards.0.no": SECRETS[4]}, "$unset": {"odd": 1}})
        people.replace_one({"_id": 7}, person(7, SECRETS[3]))
        people.delete_many({"_id": {"$in": [8, 9, 110]}})
        engine.catch_up(SECONDS)
        lab.signal("execute-snapshot", "again", data__collections=[lab.name("people")])
        engine.wait("again", SECONDS)
        lab.signal("execute-snapshot", "some", data__collections=[lab.name("people")], additional__conditions=[
            {"data-collection": lab.name("people"), "filter": '{"mail": {"$exists": true}}'}
        ])  # fmt: skip
        assert engine.wait("some", SECONDS).tasks[0].rows > 0
        for name in ("people", "others"):
            result = engine.verify(lab.name(name))
            assert result.equal, str(result)
    rows = lab.rows("people")
    assert len(rows) == 57
    assert set(rows[0]) & {"mail", "odd"} == set()
    assert {row["name"] for row in rows} >= {"n0", "n7", "n119"}
    assert lab.rows("others")[0]["mail"] == "to be seen"
    outcomes = [bson.encode(found) for found in lab.collection("signals_status").find()]
    captured = capfd.readouterr()
    said = [captured.out, captured.err, *told]
    texts = [("said", text.encode()) for text in said] + [("outcome", one) for one in outcomes]
    looked_at = assert_without(SECRETS, iter([*written(lab.folder), *texts]))
    assert looked_at > 50
    assert told
    assert outcomes


def test_renames_and_hashes_land_and_verify(lab: Lab) -> None:
    """Columns have the new names, hashes are strings, and what is compared goes by the same rules; a salt is in nothing
    that the engine wrote."""
    name = lab.name("people")
    options = {
        "field__renames": f"{name}.name:called,{name}.in.mail:post",
        "engine__field__hash__list": f"{name}.mail,{name}.odd,{name}.cards.no,{name}.in.mail",
        "engine__field__hash__salt": SALT,
    }
    lab.with_options("cluster_time", **options)
    people = lab.collection("people")
    people.insert_many([person(n, SECRETS[0]) for n in range(20)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        people.update_one({"_id": 1}, {"$set": {"name": "new", "mail": 5}})
        people.insert_one(person(30, SECRETS[1]))
        people.delete_one({"_id": 2})
        engine.catch_up(SECONDS)
        result = engine.verify(name)
        assert result.equal, str(result)
    rows = {row["_key"]: row for row in lab.rows("people")}
    assert len(rows) == 20
    assert {row["called"] for row in rows.values()} >= {"n0", "new", "n30"}
    assert all(len(row["mail"]) == 64 for row in rows.values())
    assert "name" not in next(iter(rows.values()))
    for path, content in written(lab.folder / "warehouse"):
        for secret in (*SECRETS[:2], SALT):
            assert secret.encode() not in content, path


def test_a_list_that_changes_reads_the_tables_again(lab: Lab) -> None:
    """A field that a table has rows of is left out from a later start on: the table is read again, with reconcile, and
    equals its collection under the rules; the status says that old versions hold it. A start with the same rules reads
    nothing, and neither does one for a collection that they are not about."""
    people = lab.collection("people")
    people.insert_many([person(n, SECRETS[0]) for n in range(20)])
    lab.collection("others").insert_one({"_id": 1, "mail": "to be seen"})
    lab.with_options("cluster_time")
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    assert all(row["mail"] == SECRETS[0] for row in lab.rows("people"))
    people.delete_one({"_id": 3})
    lab.with_options("cluster_time", field__exclude__list=left_out(lab))
    with lab.running() as engine:
        done = engine.wait("initial-2", SECONDS)
        assert [(task.namespace, task.reconcile) for task in done.tasks] == [(lab.namespace("people"), True)]
        people.update_one({"_id": 1}, {"$set": {"mail": SECRETS[1]}})
        engine.catch_up(SECONDS)
        result = engine.verify(lab.name("people"))
        assert result.equal, str(result)
        status = json.loads((lab.state / "status.json").read_text())
        assert any("until VACUUM" in warning and "people" in warning for warning in status["warnings"])
    rows = lab.rows("people")
    assert len(rows) == 19
    assert {row["mail"] for row in rows} == {None}
    assert not any(SECRETS[0] in json.dumps(row, default=str) for row in rows)
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        newest = engine.engine.store.newest()
        assert newest is not None
        assert [request.id for request in newest.requests] == ["initial", "initial-2"]


def test_other_rules_are_confirmed_where_events_are_told(lab: Lab) -> None:
    """A changelog holds what was told of a field that is now left out. The engine ends before anything lands, and goes
    on once somebody has said that it is meant; from then on it starts without being told again."""
    lab.collection("people").insert_one(person(1, SECRETS[0]))
    lab.with_options("cluster_time", delta__changelog__enabled=True)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    before = lab.commits("people")
    lab.with_options("cluster_time", field__exclude__list=left_out(lab))
    lab.collection("people").insert_one(person(2, SECRETS[0]))
    with (
        pytest.raises(
            DefiniteError, match=r"rules about fields .* are others than before for .*people"
        ) as caught,
        lab.running() as engine,
    ):
        engine.wait("initial-2", SECONDS)
    assert lab.commits("people") == before
    assert caught.value.next_step is not None
    (digits,) = re.findall(r"engine\.fields\.confirmed=(\w{8})", caught.value.next_step)
    lab.with_options("cluster_time", engine__fields__confirmed=digits)
    with lab.running() as engine:
        assert engine.wait("initial-2", SECONDS).tasks[0].rewrite
        engine.catch_up(SECONDS)
    del lab.options["engine.fields.confirmed"]
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    told = rows_at(lab.folder / "warehouse" / "changelog" / lab.database / "people")
    assert [SECRETS[0] in str(row["after"]) for row in told if row["op"] == "c"] == [False]


def test_verify_shows_no_value_that_is_left_out(lab: Lab) -> None:
    """A table that still has the field differs, and the report says where, and not what."""
    people = lab.collection("people")
    people.insert_many([person(n, SECRETS[0]) for n in range(3)])
    lab.with_options("cluster_time")
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    rules = FieldRules.parse({"field.exclude.list": left_out(lab)}).of(lab.namespace("people"))
    sides = lab.spark, lab.uri, lab.namespace("people"), str(lab.table("people")), COLUMNS
    report = str(verify_collection(*sides, fields=rules, rounds=0))
    assert "/mail: collection missing, table a value that is not shown" in report
    assert_without(SECRETS, iter([("report", report.encode())]))


def test_a_sharded_collection_keeps_its_shard_key(lab: Lab) -> None:
    """Through mongos a rule about the shard key is refused at the start, with the option and the entry; others are
    carried out, also where an update changes the shard key of its document."""
    with mongos_before(lab.uri) as proxy:
        lab.uri = proxy.uri
        proxy.shard(lab.name("people"), "name")
        people = lab.collection("people")
        people.insert_many([person(n, SECRETS[0]) for n in range(10)])
        proxy.learn(lab.name("people"), people.find())
        lab.with_options("cluster_time", field__exclude__list=f"*.people.name,{left_out(lab)}")
        with pytest.raises(ConfigurationError, match=r"\*\.people\.name.*is sharded by name"):
            lab.engine().start()
        lab.with_options("cluster_time", field__exclude__list=left_out(lab))
        with lab.running() as engine:
            engine.wait("initial", SECONDS)
            people.update_one({"_id": 1}, {"$set": {"name": "moved", "mail": SECRETS[1]}})
            engine.catch_up(SECONDS)
            quiet_rereads(engine)
            engine.catch_up(SECONDS)
            result = engine.verify(lab.name("people"))
            assert result.equal, str(result)
        assert {row["name"] for row in lab.rows("people")} >= {"moved", "n2"}
        assert_without(SECRETS, written(lab.folder / "warehouse"))
