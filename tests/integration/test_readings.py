"""Lists of what is captured, as a real server reads them beside Python: random ones, and how it is asked."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from snapshotter.errors import ConfigurationError
from snapshotter.reading.name_checks import Readings
from streaming.scope.list_entries import difference
from streaming.scope.scope import CaptureScope, NameList

ATOMS = [
    "a",
    "b",
    "_",
    r"\.",
    ".",
    r"\d",
    r"\w",
    r"\s",
    "[ab]",
    "[^a]",
    "[]a]",
    "[a-c_]",
    "1",
    "-",
    "é",
    "ß",
    "k",
    "s",
]
PARTS = [
    *ATOMS,
    "(?:a|b1)",
    "(a)",
    "(?=a)",
    "(?!b)",
    "(?<=a)",
    "(?<!b)",
    "^",
    "$",
    r"\b",
    "(?-i:A)",
    "{",
    "}",
    "{,",
    "[[:alpha:]]",
]
AGAIN = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{1,}", "{,2}", "{0,1}", "*?", "+?", "*+", "++"]
SIGNS = ["a", "b", "A", "B", "1", "_", ".", "-", "é", "É", "ß", "k", "K", "s", "ſ", "{", "}", ",", "2"]


def entries(rng: random.Random, count: int) -> Iterator[str]:
    while count:
        text = "".join(rng.choice(PARTS) + rng.choice(AGAIN) for _ in range(rng.randint(1, 4)))
        if difference(text) is not None:
            continue
        try:
            re.compile(text)
        except re.error:
            continue
        count -= 1
        yield text


def test_what_is_not_refused_is_read_alike(mongo_client: MongoClient[Any], rng: random.Random) -> None:
    """Two thousand random lists of what Python takes and is not refused, each against forty random names."""
    made = entries(rng, 2_000)
    lists = [
        NameList(some, excludes=rng.random() < 0.3, mode="regex") for some in zip(made, made, strict=False)
    ]
    names = ["".join(rng.choices(SIGNS, k=rng.randint(1, 5))) for _ in range(40)]
    literal = [{"$literal": name} for name in names]
    for start in range(0, len(lists), 50):
        some = lists[start : start + 50]
        reads = [{"$map": {"input": literal, "in": one.expression("$$this")}} for one in some]
        stages: list[dict[str, Any]] = [{"$documents": [{}]}, {"$project": {"reads": reads}}]
        (found,) = mongo_client.admin.aggregate(stages)
        for one, theirs in zip(some, found["reads"], strict=True):
            ours = [one.admits(name) for name in names]
            differ = [n for n, mine, other in zip(names, ours, theirs, strict=True) if mine != other]
            assert not differ, f"{one} reads {differ} otherwise"


def readings(client: MongoClient[Any], **lists: str) -> Readings:
    options = {name.replace("__", ".") + ".list": text for name, text in lists.items()}
    return Readings(client, CaptureScope.parse(options))


def test_a_name_that_is_read_otherwise_is_an_error_that_names_both_readings(
    mongo_client: MongoClient[Any], database: str
) -> None:
    """A dotted capital I is an i to Python and none to the server. It is asked of what there is, and of what is new;
    a name that only one list says nothing about makes no difference."""
    mongo_client[database]["isim"].insert_one({})
    watched = readings(mongo_client, collection__include=rf"{database}\.isim")
    watched.look()
    mongo_client[database]["İsim"].insert_one({})
    with pytest.raises(ConfigurationError) as found:
        watched.look()
    said = str(found.value)
    assert said.startswith("collection.include.list = ")
    assert (
        f"MongoDB reads it so that '{database}.İsim' is not captured, and Python so that it is captured"
        in said
    )
    readings(mongo_client, collection__include=rf"{database}\.orders").look()
    readings(mongo_client, collection__include=rf"(?-i:{database}\.isim)").look()


def test_a_list_that_the_server_does_not_take(mongo_client: MongoClient[Any], database: str) -> None:
    """It is named, with what the server says, and not looked for as a name."""
    mongo_client[database]["orders"].insert_one({})
    many = "|".join(f"{database}{n}\\.orders_of_the_year" for n in range(2_000))
    with pytest.raises(
        ConfigurationError, match=r"(?s)collection\.include\.list = .*MongoDB does not take it"
    ):
        readings(mongo_client, collection__include=many).look()


def test_an_entry_that_matches_nothing_is_said(mongo_client: MongoClient[Any], database: str) -> None:
    """With names that are near; until there is something. Entries that exclude may match nothing."""
    mongo_client[database]["orders"].insert_one({})
    watched = readings(
        mongo_client,
        collection__include=rf"{database}\.ordres,{database}\.orders",
        database__exclude="nothing",
    )
    watched.look()
    (warning,) = watched.warnings
    assert f"'{database}\\\\.ordres' matches no collection (near it: {database}.orders)" in warning
    mongo_client[database]["ordres"].insert_one({})
    watched.look()
    assert watched.warnings == ()
    alone = readings(mongo_client, collection__include=rf"{database}\.ordrs")
    alone.look()
    (warning,) = alone.warnings
    assert "nor does any other" not in warning
    far = readings(mongo_client, collection__include=rf"{database}\.zzzzzzzzzzzzzzzzzz")
    far.look()
    (warning,) = far.warnings
    assert f"matches no collection; there are {database}.ord" in warning or "(near it: " in warning
    two = readings(mongo_client, collection__include=rf"{database}\.ordrs,{database}\.x\w*y")
    two.look()
    assert all("nor does any other entry, so nothing is" in warning for warning in two.warnings)
    assert len(two.warnings) == 2
