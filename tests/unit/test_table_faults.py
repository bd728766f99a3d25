"""Which errors suspend a collection, and which end the run for all."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect
from pyspark.errors import AnalysisException

from snapshotter.core.values.suspension import TableUnusable
from snapshotter.landing.table_faults import fault_of
from streaming.delta.landing_errors import LandingError, LandingOvertaken, TableAltered, TableOwned
from streaming.delta.local_checkpoints import LOST_BLOCK
from streaming.delta.table_identity import Alteration
from streaming.namespaces import Namespace

ORDERS = Namespace("shop", "orders")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TableAltered(Alteration.MISSING, "it is gone", "read it again"), "missing"),
        (TableAltered(Alteration.CHANGED, "somebody changed it", "read it again"), "changed"),
        (TableOwned("other", "it is another's", "take over"), "owned"),
        (LandingError("the rows do not fit"), "unusable"),
        (
            RuntimeError(
                "\norg.apache.spark.sql.delta.schema.DeltaInvariantViolationException: "
                "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] v < 3\n\tat java.lang"
            ),
            "delta_violate_constraint_with_values",
        ),
        (AnalysisException("cannot resolve v"), "unusable"),
        (
            RuntimeError("[DELTA_UNSUPPORTED_FEATURES_FOR_READ] it asks for more"),
            "delta_unsupported_features_for_read",
        ),
        (TableUnusable(ORDERS, "name", "too long", "rename it"), "name"),
    ],
)
def test_what_is_wrong_with_one_table_suspends_its_collection(error: Exception, cause: str) -> None:
    """With one line that says why, and a next step."""
    fault = fault_of(ORDERS, error)
    assert fault is not None
    assert (fault.namespace, fault.cause) == (ORDERS, cause)
    assert fault.error
    assert "\n" not in fault.error
    assert fault.next_step
    assert fault.repairable == isinstance(error, TableAltered)


@pytest.mark.parametrize("suspect", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        AutoReconnect("the primary stepped down"),
        RuntimeError(f"[{LOST_BLOCK}] an executor died"),
        LandingOvertaken("another engine of this name landed the batch"),
        KeyboardInterrupt(),
    ],
)
def test_what_is_everybodys_suspends_nothing(error: BaseException, suspect: bool) -> None:
    """However often it comes."""
    assert fault_of(ORDERS, error, suspect=suspect) is None


def test_an_unknown_error_is_the_tables_once_it_has_ended_several_runs() -> None:
    """Until then the run is tried again."""
    error = RuntimeError("the file state/shop/orders/part-0 does not exist")
    assert fault_of(ORDERS, error) is None
    fault = fault_of(ORDERS, error, suspect=True)
    assert fault is not None
    assert fault.cause == "failing"
