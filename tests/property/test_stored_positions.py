"""What other products have stored, whatever it holds: read as it stands, or refused, never taken for another one."""

from __future__ import annotations

import base64
import csv
import io
import json

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.position.java_maps import parse_map
from snapshotter.position.offset_files import entries
from snapshotter.position.starts import Start
from snapshotter.position.stored import parse_stored
from streaming.positions import ClusterTime
from tests.support.java_streams import java_map

TIMES = st.builds(ClusterTime, st.integers(1, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))
TOKENS = st.binary(min_size=9, max_size=80).map(lambda data: data.hex().upper())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.text("abcxyz-_", min_size=1, max_size=8)


@given(st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=200), max_size=6))
def test_a_map_of_javas_is_read_whole(stored: dict[bytes, bytes | None]) -> None:
    """Every entry, in its order."""
    assert parse_map(java_map(stored)) == stored


@given(st.dictionaries(st.binary(max_size=9), st.binary(max_size=9), min_size=1, max_size=3), st.data())
def test_a_damaged_map_is_refused_or_read(stored: dict[bytes, bytes | None], data: st.DataObject) -> None:
    """By a ValueError, wherever it is cut or changed; there is nothing else that it could do."""
    whole = java_map(stored)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r"\S"):
        parse_map(whole[:cut])
    changed = bytearray(whole)
    changed[cut] ^= data.draw(st.integers(1, 255))
    try:
        parse_map(bytes(changed))
    except ValueError:
        return


@given(TIMES, TOKENS, st.booleans())
def test_debeziums_time_counts_and_is_read_again(time: ClusterTime, token: str, initsync: bool) -> None:
    """Inclusive, for the events of a transaction share it; the token beside it is not needed."""
    raw = base64.b64encode(bson.encode({"_data": token})).decode()
    value = {"sec": time.t, "ord": time.i, "resume_token": raw, "transaction_id": None}
    found = parse_stored({**value, "initsync": True} if initsync else value)
    assert found.start == Start(time=time, inclusive=True)
    assert bool(found.notes) is initsync


@given(TOKENS, st.sampled_from((-1, 0)))
def test_without_a_time_it_begins_behind_the_token(token: str, second: int) -> None:
    """A heartbeat's offset has -1 for its time, one that was made by hand perhaps 0. The token is kept whole, in each
    of its forms."""
    whole = bson.encode({"_data": token})
    for text in (base64.b64encode(whole).decode(), token):
        value = {"sec": second, "ord": -1, "resume_token": text}
        found = parse_stored(value).start.token
        assert found is not None
        assert bson.decode(found) == {"_data": token}
    in_text = json.dumps({"_data": token})
    for value in ({"_id": in_text}, {"_id": in_text, "HEARTBEAT": "true"}, {"_id": in_text, "copy": "false"}):
        assert parse_stored(value) == parse_stored({"_id": {"_data": token}})
    assert parse_stored({"version": 1, "offset": {"_data": token}}).start == Start(token=whole)
    assert parse_stored({"_data": token}).start == Start(token=whole)


@given(TIMES)
def test_sparks_times_are_read_again_and_ours_are_not(time: ClusterTime) -> None:
    """mongo-spark's is that of its batch's end, whose events it may not have seen; ours has landed."""
    spark = {"version": 1, "offset": {"$timestamp": {"t": time.t, "i": time.i}}}
    if time.to_int() != (1 << 64) - 1:
        assert parse_stored(spark).start == Start(time=time, inclusive=True)
    assert parse_stored({**time.to_json(), "nonce": 3}).start == Start(time=time, inclusive=False)


@given(JSON)
def test_anything_else_is_refused(value: object) -> None:
    """With a sentence."""
    known = isinstance(value, dict) and {"t", "i"} <= value.keys()
    if not known:
        with pytest.raises(ValueError, match=r"\S"):
            parse_stored(value)


@given(st.dictionaries(NAMES, TIMES, min_size=1, max_size=4))
def test_every_form_of_a_store_says_the_same(stored: dict[str, ClusterTime]) -> None:
    """The file store, the topic as the console consumer and kcat print it, the REST interface, rows as JSON and CSV."""
    pairs = [
        (json.dumps([name, {"server_id": name}]), json.dumps({"sec": time.t, "ord": time.i}))
        for name, time in stored.items()
    ]
    table = io.StringIO()
    rows = csv.writer(table)
    rows.writerow(["id", "offset_key", "offset_val", "record_insert_ts", "record_insert_seq"])
    rows.writerows(["i", key, value, "2026-01-01", n] for n, (key, value) in enumerate(pairs))
    forms = {
        "file": java_map({key.encode(): value.encode() for key, value in pairs}),
        "console": "\n".join(f"{key}\t{value}" for key, value in pairs).encode(),
        "kcat": "\n".join(
            json.dumps({"topic": "t", "partition": 0, "key": key, "payload": value}) for key, value in pairs
        ).encode(),
        "rows": json.dumps([{"OFFSET_KEY": key, "OFFSET_VAL": value} for key, value in pairs]).encode(),
        "csv": table.getvalue().encode(),
        "pairs": json.dumps([{"key": json.loads(k), "value": json.loads(v)} for k, v in pairs]).encode(),
    }
    for form, data in forms.items():
        found = {entry.key[0]: parse_stored(entry.value).start.time for entry in entries(data)}
        assert found == stored, form
