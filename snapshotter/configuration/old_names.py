"""Options under the names that Debezium once had for them: taken as what they are called now, and said so.

Values are known by now, references and all. ``mongodb.hosts`` alone has a form of its own: ``rs0/host:port,…`` becomes
a connection string. A new name that is given too goes first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snapshotter.configuration.config_providers import Drawn, Resolved
from snapshotter.configuration.options_elsewhere import RENAMED
from snapshotter.errors import Problem

HOSTS = "mongodb.hosts"


@dataclass(slots=True)
class Renamed:
    """What was taken as what: ``given`` has the old name of each new one, ``warnings`` a sentence for each."""

    given: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def told(self, problem: Problem) -> Problem:
        """The problem of an option by the name that it was given."""
        old = self.given.get(problem.option)
        if old is None:
            return problem
        return Problem(problem.option, f"(given as {old}) {problem.message}", problem.value)


def renamed(resolved: Resolved) -> Renamed:
    """Give the options of ``resolved`` their present names."""
    found = Renamed()
    for old, new in RENAMED.items():
        if old not in resolved.values:
            continue
        value, drawn = resolved.values.pop(old), resolved.drawn.pop(old, None)
        if new in resolved.values:
            found.warnings.append(f"{old} has no effect: it is an old name of {new}, which is set")
            continue
        if old == HOSTS:
            if ";" in value:
                why = f"names more than one replica set; set {new} to the address of the cluster's mongos"
                resolved.problems.append(Problem(old, why))
            value = _address(value)
        resolved.values[new] = value
        if drawn is not None:
            resolved.drawn[new] = Drawn(drawn.written, drawn.parts, drawn.secret)
        found.given[new] = old
        found.warnings.append(f"{old} is an old name, and is taken as {new}")
    return found


def _address(hosts: str) -> str:
    """``rs0/one:27017,two:27017``, as a connection string."""
    name, slash, members = hosts.strip().rpartition("/")
    return f"mongodb://{members}/" + (f"?replicaSet={name}" if slash else "")
