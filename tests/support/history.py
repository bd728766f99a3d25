"""What a collection held at every moment, and what its table held in every version: for judging histories.

The collection's side comes from a change stream of the test's own, read afterwards with post-images. Documents are
those of `tests.support.workload`: a number ``k`` and its version ``v``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bson
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pymongo.collection import Collection

from streaming.positions import ClusterTime
from tests.support.tables import rows
from tests.support.workload import key

State = dict[int, int]
"""Version by number, of the documents that are there."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event: ``v`` is None for a delete; ``tx`` numbers the transaction, if it was written in one."""

    time: ClusterTime
    k: int
    v: int | None
    tx: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of the table that a landing made; ``position`` is the cluster time that it stands for."""

    version: int
    batch: int
    app_id: str
    position: ClusterTime
    windows: tuple[str, ...]


def changes_since(client: MongoClient[Any], collection: Collection[Any], start: ClusterTime) -> list[Change]:
    """Every change after ``start`` up to now, in order."""
    numbers: dict[bytes, int] = {}
    found = []
    mark = client[collection.database.name]["history.end"]
    after = Timestamp(start.t, start.i + 1)
    end = mark.insert_one({}).inserted_id
    with mark.database.watch(start_at_operation_time=after, full_document="whenAvailable") as stream:
        for event in stream:
            if event["ns"]["coll"] == mark.name and event["operationType"] == "insert":
                if event["documentKey"]["_id"] == end:
                    break
                continue  # the mark of a reading before; its drop is in the stream too
            if event["ns"]["coll"] == collection.name:
                found.append(_change(event, numbers))
    mark.drop()
    return found


def _change(event: Mapping[str, Any], numbers: dict[bytes, int]) -> Change:
    time = ClusterTime(event["clusterTime"].time, event["clusterTime"].inc)
    tx = (bson.encode(event["lsid"]), event["txnNumber"]) if "txnNumber" in event else None
    if event["operationType"] == "delete":
        return Change(time, _number_of(event["documentKey"], numbers), None, tx)
    document = event["fullDocument"]
    return Change(time, document["k"], document["v"], tx)


def _number_of(document_key: Mapping[str, Any], numbers: dict[bytes, int]) -> int:
    """The number whose id this is. Ids are compared as the driver decodes them: some types are read as others."""
    wanted = bson.encode(document_key)
    while wanted not in numbers:
        k = len(numbers)
        numbers[bson.encode(bson.decode(key(k).raw))] = k
        assert k < 1_000_000, f"no number has the id {document_key}"
    return numbers[wanted]


def states_at(before: State, changes: Sequence[Change], times: Sequence[ClusterTime]) -> list[State]:
    """What the collection held at each of these ascending times."""
    state, place, found = dict(before), 0, []
    for time in times:
        while place < len(changes) and changes[place].time <= time:
            change = changes[place]
            if change.v is None:
                state.pop(change.k, None)
            else:
                state[change.k] = change.v
            place += 1
        found.append(dict(state))
    return found


def table_versions(path: Path) -> list[TableVersion]:
    """Every landing, from the log's own files, in order."""
    found = []
    for file in sorted((path / "_delta_log").glob("[0-9]*.json")):
        for line in file.read_text().splitlines():
            text = json.loads(line).get("commitInfo", {}).get("userMetadata")
            mark = json.loads(text) if text else {}
            if "landing" in mark:
                landed = mark["metadata"]
                position = ClusterTime.from_json(landed["position"])
                windows = tuple(landed["windows"])
                batch = TableVersion(int(file.stem), mark["batch"], mark["app_id"], position, windows)
                found.append(batch)
    return found


def table_state(path: Path, version: int) -> State:
    """What the table held in a version. Fails on a number that has two rows."""
    held = rows(path, "k, v", version)
    state = {row["k"]: row["v"] for row in held}
    assert len(state) == len(held), f"version {version} of {path.name} has two rows of one document"
    return state


def judge(path: Path, versions: list[TableVersion], changes: list[Change], documents: int) -> None:
    """Rules on the versions from the first complete one on, with post-images. ``documents`` were loaded before the
    first change."""
    positions = [version.position for version in versions]
    assert positions == sorted(set(positions)), "positions do not ascend"
    assert any(version.windows for version in versions[1:]), "no version closed a window"
    found = [table_state(path, version.version) for version in versions]
    never_back(found)
    no_half_transaction(found, versions, changes)
    wanted = states_at(dict.fromkeys(range(documents), 1), changes, positions)
    for version, state, held in zip(versions, wanted, found, strict=True):
        wrong = {
            k: (state.get(k), held.get(k)) for k in state.keys() | held.keys() if state.get(k) != held.get(k)
        }
        assert not wrong, (
            f"{version} is not the collection at {version.position}: (collection, table) {wrong}"
        )


def never_back(found: list[State]) -> None:
    """No number goes back to an older version, not even across a delete."""
    newest: State = {}
    for state in found:
        older = {k: (newest[k], v) for k, v in state.items() if newest.get(k, 0) > v}
        assert not older, f"(before, after): {older}"
        newest |= state


def no_half_transaction(found: list[State], versions: list[TableVersion], changes: list[Change]) -> None:
    """Where one change of a transaction shows in a version, every other one of it does, or something newer."""
    transactions: dict[tuple[Any, ...], list[Change]] = {}
    for change in changes:
        if change.tx is not None and change.v is not None:
            transactions.setdefault(change.tx, []).append(change)
    assert any(len(parts) > 1 for parts in transactions.values())
    deleted_at = [(c.k, c.time) for c in changes if c.v is None]
    for state, version in zip(found, versions, strict=True):
        gone = {k for k, time in deleted_at if time <= version.position}
        for parts in transactions.values():
            shown = [state.get(c.k, 0) >= (c.v or 0) for c in parts if c.k not in gone]
            assert all(shown) or not any(shown), f"version {version.version} shows half of {parts}"
