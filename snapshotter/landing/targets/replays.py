"""Dead letters told to targets of events, once operators have asked for it (`snapshotter dead-letters replay`).

What is kept of a dead letter is older than its document, so it goes into no state table; changelogs and topics tell
what has happened, and there it is the event that is missing. Each is told with a mark that names the letter, behind the
rules about fields as they are now, and once: a changelog is asked for the marks that it has, and what was told is said
in the letter (`landing.buried`). What cannot be told is refused there, with the reason.

    letters that are wanted -> what they say under the rules -> envelopes -> every target -> the letters are settled

This happens with a batch, behind all that it lands and before its progress is saved: under the engine's lock, and again
where the batch comes again. Letters of a collection that is suspended wait until it is restored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from snapshotter.landing.buried import BEHIND_RENAMES, REFUSED, TOLD, WANTED, BuriedLetters, Letter
from snapshotter.landing.frames import for_batches, frame_of
from snapshotter.landing.targets.target import EventTarget, Identity
from streaming.bson.elements import check
from streaming.decode.dead_letters import OF_ALL, Where, reason
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.events.envelope import INCREMENTAL, Envelope, key_of, mark_of, of_replayed
from streaming.fields.document_rules import DocumentRules
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.dead_letters")

AT_ONCE = 1_000
"""So many letters are told with one batch at most."""
_OPS = {"insert": "c", "update": "u", "replace": "u"}
_READ = "r"
_GIVEN = (
    *("id", "stage", "collection", "operation", "_key", "_cluster_time", "request", "window"),
    *("bytes", "hashes"),
)
_MADE = pa.schema(
    [
        *[(name, pa.string()) for name in ("id", "refused", "_key", "op", "operation_type")],
        *[(name, pa.string()) for name in ("db", "collection")],
        ("document", pa.binary()),
        ("cluster_time", pa.int64()),
        *[(name, pa.string()) for name in ("snapshot", "_window", "_request", "_replayed")],
    ]
)
_NOT_CAPTURED = "its collection is not captured any more"
_NO_BYTES = "no bytes of it are stored"
_SKIPPED = "such events are not told (skipped.operations, skip.messages.without.change)"

_RENAMED = "what is stored of it has renamed fields, so the rules of now cannot be carried out on it"
_OTHER_HASHES = "fields are hashed by other rules now than in its bytes, which cannot be undone"


@dataclass(frozen=True, slots=True)
class Behind:
    """What stored bytes of a collection are brought behind: the ``rules`` but for those that hash, for that was done
    when they were stored; ``hashes`` tells by which rules it has to be (None: there are none)."""

    rules: DocumentRules | None = None
    hashes: str | None = None

    @classmethod
    def of(cls, rules: DocumentRules | None, hashing: str) -> Behind:
        """From all ``rules`` of a collection; ``hashing`` tells the rules that hash."""
        if rules is None:
            return cls()
        return cls(rules.without_hashes(), hashing if rules.hashes else None)


@dataclass(slots=True)
class Replays:
    """Of the ``letters`` of an engine, to its ``targets`` of events, told as ``envelope`` says. ``captures`` decides
    whose collections are the engine's, ``rules`` gives the rules about the fields of one, and ``hashing`` tells by
    which fields are hashed (`FieldRules.hashing_digest`). ``wanted`` says, for little, of how many there is something
    to tell, and ``settled`` is called when some of it is done. ``clock``: nanoseconds since 1970."""

    letters: Callable[[], BuriedLetters]
    targets: Sequence[EventTarget]
    envelope: Envelope
    captures: Callable[[Namespace], bool]
    rules: Callable[[Namespace], DocumentRules | None]
    hashing: str
    wanted: Callable[[], int]
    settled: Callable[[], None]
    clock: Callable[[], int] = time.time_ns
    _buried: BuriedLetters | None = None
    _in_vain: tuple[int, frozenset[Namespace]] | None = None

    def land(self, identity: Identity, left_out: Collection[Namespace]) -> None:
        """With the batch of this ``identity``: tell what is wanted, but for the collections that are ``left_out`` of
        it."""
        state = self.wanted(), frozenset(left_out)
        if not state[0] or state == self._in_vain:
            return
        self._buried = self._buried or self.letters()
        letters = self._buried.wanted(AT_ONCE, frozenset(map(str, left_out)))
        self._in_vain = None if letters else state
        outcomes = self._outcomes(self._buried, letters, identity)
        if not outcomes:
            return
        self._buried.settle(outcomes)
        told = sum(outcome == TOLD for outcome in outcomes.values())
        _log.info("dead letters replayed to targets of events", told=told, refused=len(outcomes) - told)
        for letter, outcome in outcomes.items():
            if outcome != TOLD:
                _log.warning("a dead letter cannot be told to targets of events", id=letter, why=outcome)
        self.settled()

    def _outcomes(
        self, buried: BuriedLetters, letters: Iterable[Letter], identity: Identity
    ) -> dict[str, str]:
        """What becomes of these ``letters``, by their ids: none of a letter that has to wait. One of a time that the
        stream has yet to reach, because its position was set back, does: a changelog takes no event up to the newest
        time that it holds, so what lies between would never be told."""
        outcomes: dict[str, str] = {}
        able: dict[str, Namespace] = {}
        end = ClusterTime.from_json(identity.metadata["position"]).to_int()
        for letter in letters:
            namespace = None if letter.collection is None else Namespace.parse(letter.collection)
            if namespace is None or not self.captures(namespace):
                outcomes[letter.id] = REFUSED + _NOT_CAPTURED
            elif letter.cluster_time is None or letter.cluster_time <= end:
                able[letter.id] = namespace
        return outcomes | self._told(buried, able, identity) if able else outcomes

    def _told(
        self, buried: BuriedLetters, able: Mapping[str, Namespace], identity: Identity
    ) -> dict[str, str]:
        rows = buried.rows()
        assert rows is not None, "letters were found there"
        for_batches(rows.sparkSession)  # what goes to a worker at a time is bounded by bytes
        behind = {str(n): Behind.of(self.rules(n), self.hashing) for n in {*able.values()}}
        with ExitStack() as frees:

            def kept(frame: DataFrame) -> DataFrame:
                made = held(frame)
                frees.callback(free_checkpoint, made)
                return made

            chosen = F.broadcast(frame_of(rows.sparkSession, pa.table({"id": [*able]})))
            given = rows.where(F.col("events") == WANTED).join(chosen, "id", "left_semi").select(*_GIVEN)
            made = kept(given.mapInArrow(partial(source_rows, behind), from_arrow_schema(_MADE)))
            refused = made.where("refused IS NOT NULL").select("id", "refused").collect()
            outcomes = {row["id"]: REFUSED + row["refused"] for row in refused}
            sound = made.where("refused IS NULL").drop("id", "refused")
            told = kept(of_replayed(sound, self.envelope, self.clock()))
            ops = {row[0]: row[1] for row in told.select("source.sequence", "op").collect()}
            marks: dict[Namespace, dict[str, str]] = {}
            for letter in able.keys() - outcomes.keys():
                if (mark := mark_of(letter)) in ops:
                    marks.setdefault(able[letter], {})[mark] = ops[mark]
                else:
                    outcomes[letter] = REFUSED + _SKIPPED
            done = self._in_all(told, marks, identity)
        return outcomes | {letter: TOLD for letter in able if mark_of(letter) in done}

    def _in_all(
        self, told: DataFrame, marks: Mapping[Namespace, Mapping[str, str]], identity: Identity
    ) -> frozenset[str]:
        """The marks that every target has."""
        if not marks:
            return frozenset()
        there = [target.replay(told, marks, identity) for target in self.targets]
        return frozenset.intersection(*there)


def why_not(letter: Letter) -> str | None:
    """Why targets of events cannot be told of a letter, as far as that is known before it is tried; None where it may
    be."""
    if letter.events == TOLD:
        return "they have been told of it"
    if letter.stored:
        return None
    if letter.size:
        return (
            f"its {letter.size} bytes are withheld: the rules about fields could not be carried out on them"
        )
    return _NO_BYTES


def source_rows(behind: Mapping[str, Behind], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: letters, as the columns of their table say, as rows for `of_replayed`, ``behind`` the rules
    of their collections; with the reason in ``refused`` where that cannot be."""
    for batch in batches:
        rows = [_row(one, behind[one["collection"]]) for one in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_MADE)


def _row(letter: Mapping[str, Any], behind: Behind) -> dict[str, Any]:
    read = letter["stage"] == Where.READ
    op = _READ if read else _OPS.get(letter["operation"])
    try:
        document, why = _document(letter["bytes"], behind.rules), None
    except OF_ALL:
        raise
    except Exception as error:  # noqa: BLE001 - it is said in the letter
        document, why = None, reason(error)
    if letter["bytes"] is None:
        why = _NO_BYTES
    elif (letter["hashes"] or "").endswith(BEHIND_RENAMES):
        why = _RENAMED
    elif behind.hashes not in (None, letter["hashes"]):
        why = _OTHER_HASHES
    elif op is None:
        why = f"an event of the operation {letter['operation']!r} has no document"
    if why is not None:
        return {"id": letter["id"], "refused": why}
    namespace = Namespace.parse(letter["collection"])
    return {
        "id": letter["id"],
        "_key": letter["_key"],
        "op": op,
        "operation_type": "read" if read else letter["operation"],
        "db": namespace.database,
        "collection": namespace.collection,
        "document": document,
        "cluster_time": letter["_cluster_time"],
        "snapshot": INCREMENTAL if read else None,
        "_window": letter["window"],
        "_request": letter["request"],
        "_replayed": mark_of(letter["id"]),
    }


def _document(raw: bytes | None, rules: DocumentRules | None) -> bytes | None:
    """The stored bytes behind ``rules``. Raises what makes that impossible, and MalformedBson where they are
    damaged."""
    if raw is None:
        return None
    check(raw)
    key_of(raw)
    return raw if rules is None else rules.document(raw)
