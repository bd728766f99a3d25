"""From names and text to checked values: which options are known, and what each group makes of its own.

Problems are gathered, not raised: a person who corrects a file wants to see all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from snapshotter.configuration import transforms
from snapshotter.configuration.option_values import Group
from snapshotter.configuration.options import SPARK_PREFIX, Status, find, is_secret, nearest
from snapshotter.configuration.unwrap import honoured
from snapshotter.errors import MASK, Problem, redact

# What Spark 4 takes (`SparkSubmit`, `SparkMasterRegex`). It says so only after its JVM has started, and of most others
# on its log alone.
_MASTER = re.compile(
    r"local(\[([1-9]\d*|\*)(\s*,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://\S+|k8s://\S+|yarn"
)
_WRONG_MASTER = (
    "is no master of Spark's; use local[*], local[4], spark://HOST:PORT, yarn, or k8s://https://HOST:PORT"
)


def shown(name: str, value: str | None) -> str | None:
    """A value fit to be shown: secrets and credentials masked."""
    if value is None:
        return None
    if name == "mongodb.connection.string":
        return redact(value)
    return MASK if is_secret(name) else redact(value)


def sorted_out(
    values: Mapping[str, str], problems: list[Problem]
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Options that work, those for Spark, and warnings; problems are added for the others."""
    known: dict[str, str] = {}
    spark: dict[str, str] = {}
    warnings: list[str] = []
    for name, value in values.items():
        option = find(name)
        if name.startswith(SPARK_PREFIX):
            spark[name] = value
            if name == "spark.master" and not _MASTER.fullmatch(value):
                problems.append(Problem(name, _WRONG_MASTER, value))
        elif option is None:
            meant = nearest(name)
            hint = f"; did you mean {meant}?" if meant else "; see snapshotter config --options for all names"
            # A secret under a misspelt name is still one.
            visible = shown(meant, value) if meant and is_secret(meant) else shown(name, value)
            problems.append(Problem(name, f"is no option{hint}", visible))
        elif option.status is Status.SUPPORTED:
            known[name] = value
        elif option.asks_for_nothing(value) or transforms.is_of_one(name):
            continue
        elif option.status is Status.PLANNED:
            way_out = "remove it" + (f" or set it to {option.default}" if option.default else "")
            message = f"is not supported yet ({option.doc}); {way_out}"
            problems.append(Problem(name, message, shown(name, value)))
        elif option.status is Status.REFUSED:
            problems.append(Problem(name, f"is refused: {option.doc}; remove it", shown(name, value)))
        else:
            warnings.append(f"{name} has no effect here: {option.doc}")
    return known, spark, [*warnings, *transforms.warnings(values, honoured(values))]


def read_group(
    kind: type[Group], values: Mapping[str, str], broken: set[str], problems: list[Problem]
) -> Group | None:
    """The group of class ``kind``, from all ``values``. Where some are wrong, ``problems`` gets them, and the group is
    that of the sound ones alone, or None where a required one is missing.

    Options in ``broken`` have had their problems reported already.
    """
    names = {field.alias for field in kind.model_fields.values() if field.alias}
    given: dict[str, Any] = {name: values[name] for name in values if name in names}
    for prefix in sorted(name.removesuffix("*") for name in names if name.endswith(".*")):
        if under := {n.removeprefix(prefix): text for n, text in values.items() if n.startswith(prefix)}:
            given[f"{prefix}*"] = under
    try:
        return kind.model_validate(given)
    except ValidationError as invalid:
        for error in invalid.errors():
            name = str(error["loc"][0])
            if name not in broken:
                problems.append(_problem(name, error, given))
            given.pop(name, None)
    # What is left still takes part in the checks between options, so that their problems are reported too.
    try:
        return kind.model_validate(given)
    except ValidationError:
        return None


def _problem(name: str, error: Any, given: Mapping[str, Any]) -> Problem:
    limits = error.get("ctx", {})
    messages = {
        "missing": "is required",
        "string_too_short": "must not be empty",
        "greater_than_equal": f"must be at least {limits.get('ge')}",
        "less_than_equal": f"must be at most {limits.get('le')}",
        "less_than": f"must be less than {limits.get('lt')}",
        "value_error": str(limits.get("error", "")),
    }
    option = find(name)
    message = messages.get(error["type"], error["msg"])
    if error["type"] == "missing" and option is not None:
        message += f" ({option.doc})"
    return Problem(name, message, shown(name, given.get(name)))
