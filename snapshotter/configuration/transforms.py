"""What a configuration says of Kafka Connect's single message transforms, and of the predicates that go with them.

``transforms`` lists names, ``transforms.X.type`` is the class of one, and ``transforms.X.*`` are its options; the same
with ``predicates``. Debezium Server calls them ``debezium.transforms``. One is honoured (`unwrap`); each other one is
named as not carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FAMILIES = ("transforms", "predicates", "debezium.transforms", "debezium.predicates")
_WHY = {
    "transforms": "documents go straight into tables",
    "predicates": "there is no transform to choose for",
}


@dataclass(frozen=True, slots=True)
class Declared:
    """One transform or predicate: its ``family`` and ``name``, its class (empty where none is given), and its
    ``options`` without that, by what follows its name."""

    family: str
    name: str
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)


def is_of_one(option: str) -> bool:
    """Whether an option belongs to a transform or a predicate, or lists them."""
    return any(option == family or option.startswith(f"{family}.") for family in FAMILIES)


def declared(values: Mapping[str, str]) -> Iterator[Declared]:
    """Those that are listed, in their order."""
    for family in FAMILIES:
        for name in _names(values, family):
            start = f"{family}.{name}."
            options = {o.removeprefix(start): text for o, text in values.items() if o.startswith(start)}
            yield Declared(family, name, options.pop("type", "").strip(), options)


def warnings(values: Mapping[str, str], honoured: Declared | None = None) -> Iterator[str]:
    """What is not carried out, one sentence for each but the one that is ``honoured``; and options of those that are
    not listed."""
    for one in declared(values):
        if one == honoured:
            continue
        kind = one.kind or f"{one.family}.{one.name}.type is not set"
        why = _WHY[one.family.rpartition(".")[2]]
        yield f"{one.family}: {one.name} ({kind}) is not carried out: {why}"
    for option in values:
        family = next((f for f in FAMILIES if option.startswith(f"{f}.")), None)
        if family is None:
            continue
        name = option.removeprefix(f"{family}.").partition(".")[0]
        if name not in _names(values, family):
            yield f"{option} has no effect: {family} does not list {name}"


def _names(values: Mapping[str, str], family: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in values.get(family, "").split(",") if name.strip()))
