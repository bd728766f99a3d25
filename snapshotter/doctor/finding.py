"""One thing that the doctor says, and how things stand by all that he says. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Severity(StrEnum):
    """From what is fine to what keeps an engine from its work."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Area(StrEnum):
    """What findings are shown under, in this order."""

    OPTIONS = "options"
    VERSIONS = "versions"
    MONGODB = "MongoDB"
    PRIVILEGES = "privileges"
    OPLOG = "oplog"
    CAPTURED = "what is captured"
    WAREHOUSE = "warehouse"


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` is what it is about: an option, a collection, a privilege. ``what`` is found there, and ``remedy``
    says what to do; it is empty where there is nothing to do."""

    area: Area
    severity: Severity
    subject: str
    what: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """As ``--json`` has it."""
        return {name: str(value) for name, value in asdict(self).items()}


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """By area, the worst of each first."""
    areas, severities = list(Area), list(Severity)
    return sorted(findings, key=lambda one: (areas.index(one.area), -severities.index(one.severity)))


def worst(findings: Iterable[Finding]) -> Severity:
    """How bad it is at most."""
    severities = list(Severity)
    return max((one.severity for one in findings), key=severities.index, default=Severity.OK)


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many there are of each severity, the worst first."""
    found = Counter(one.severity for one in findings)
    return {severity.value: found[severity] for severity in reversed(Severity)}
