"""Which errors belong to one collection's table, so that they suspend it and stop nobody else.

An error that will come again with this very table (`snapshotter.failures`: definite) is one. An error that may pass, or
that any table may meet (MongoDB, an executor, the storage), ends the run, and the next run tries again; where it has
ended several runs, and one table alone has met it, it is that table's too (`suspect`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from snapshotter.core.values.suspension import TableUnusable
from snapshotter.failures import Fault, classify
from snapshotter.reading.document_errors import DocumentError
from streaming.delta.landing_errors import LandingOvertaken, TableAltered, TableOwned
from streaming.delta.local_checkpoints import LOST_BLOCK
from streaming.error_text import said_by
from streaming.namespaces import Namespace


@dataclass(slots=True)
class Blame:
    """Whose fault errors of tables are, in one run. ``suspects``: collections whose landings have failed in several
    runs, so that the errors of their tables count as their own. ``failing``: the collection whose table has ended the
    run, where no other table met an error."""

    suspects: frozenset[Namespace] = frozenset()
    failing: Namespace | None = None

    def fault_of(self, namespace: Namespace, error: BaseException) -> TableUnusable | None:
        """As the function `fault_of`, which is told whether the collection is a suspect."""
        return fault_of(namespace, error, suspect=namespace in self.suspects)

    def note(self, namespace: Namespace, error: BaseException, *, others: bool) -> None:
        """This error ends the run. ``others``: other tables had none."""
        if others and may_be_blamed(error):
            self.failing = namespace


_DELTA = re.compile(r"\[(DELTA_[A-Z0-9_]+)")
# Another writer was quicker, or Delta itself was not ready.
_PASSING = re.compile(
    r"DELTA_(CONCURRENT_|METADATA_CHANGED|PROTOCOL_CHANGED|SPARK_SESSION_NOT_SET|MAX_COMMIT_RETRIES)"
)
_SHOWN = 500


def fault_of(namespace: Namespace, error: BaseException, *, suspect: bool = False) -> TableUnusable | None:
    """What suspends the collection whose table met this error; None where it is no fault of the table. With ``suspect``
    an error that does not say whose it is counts as the table's."""
    match error:
        case TableUnusable():
            return error
        case TableAltered():
            why = error.alteration, error.message, error.next_step
            return TableUnusable(namespace, *why, repairable=True)
        case TableOwned():
            return TableUnusable(namespace, "owned", error.message, error.next_step)
        case LandingOvertaken() | DocumentError():
            return None
    if not isinstance(error, Exception):
        return None
    found, delta = classify(error), _DELTA.search(said_by(error))
    refused = found is Fault.UNKNOWN and delta is not None and not _PASSING.match(delta[1])
    if refused or found is Fault.DEFINITE:
        cause = "unusable" if delta is None else delta[1].lower()
        return TableUnusable(namespace, cause, _line(error), _cure(namespace))
    if suspect and may_be_blamed(error):
        return TableUnusable(namespace, "failing", _line(error), _cure(namespace))
    return None


def may_be_blamed(error: BaseException) -> bool:
    """Whether an error can be one table's own, though it does not say so: a source that is out of reach is not, nor an
    executor that died."""
    return classify(error) in (Fault.UNKNOWN, Fault.ENVIRONMENT) and LOST_BLOCK not in said_by(error)


def _cure(namespace: Namespace) -> str:
    return (
        "cure the cause, then read the collection again, which lands its events from then on: "
        f"`snapshotter execute-snapshot -c FILE {namespace} --reconcile`"
    )


def _line(error: BaseException) -> str:
    """The first line that says something: Java's stack follows it."""
    lines = (line.strip() for line in said_by(error).splitlines())
    return (next(filter(None, lines), "") or type(error).__name__)[:_SHOWN]
