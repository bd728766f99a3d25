"""Properties of how errors are classed: over all codes, labels, classes and words."""

from __future__ import annotations

import pymongo.helpers_shared as driver_lists
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import change_stream_shared
from pymongo.errors import AutoReconnect, CursorNotFound, OperationFailure

from snapshotter.failures import _CLASSES, Fault, Link, fault_in
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import CODES, Kind, kind_of, of_categories

LABELS = (
    "NonResumableChangeStreamError",
    "ResumableChangeStreamError",
    "RetryableError",
    "RetryableWriteError",
    "SystemOverloadedError",
    "TransientTransactionError",
)
codes = st.one_of(st.none(), st.sampled_from(sorted(CODES)), st.integers(-(2**31), 2**31 - 1))
labels = st.frozensets(st.one_of(st.sampled_from(LABELS), st.text(max_size=8)))
words = st.one_of(st.text(), st.sampled_from(["Python worker exited unexpectedly", "java.io.IOException: x"]))
links = st.builds(
    Link,
    source=st.one_of(st.none(), st.sampled_from(Kind)),
    classes=st.lists(st.one_of(st.sampled_from(sorted(_CLASSES)), st.text(max_size=8)), max_size=3).map(
        tuple
    ),
    words=words,
)


@pytest.mark.parametrize("code", sorted(driver_lists._RETRYABLE_ERROR_CODES))
def test_what_the_driver_sends_again_is_retriable(code: int) -> None:
    """Its own list of retryable codes, whatever version of it is installed."""
    assert kind_of(code).retriable


@given(codes, labels)
def test_what_the_driver_resumes_a_change_stream_after_is_retriable(
    code: int | None, given_labels: frozenset[str]
) -> None:
    """Unless the position is known to be lost, or an event to be too large: resuming would meet the same again."""
    error = OperationFailure("what", code, {"errorLabels": sorted(given_labels)})
    lost = CODES.get(code or 0) in (Kind.POSITION_LOST, Kind.EVENT_TOO_LARGE)
    if (
        change_stream_shared._resumable(error)
        and "NonResumableChangeStreamError" not in given_labels
        and not lost
    ):
        assert classify(error).retriable
    assert classify(AutoReconnect("gone")).retriable
    assert classify(CursorNotFound("gone", 43)).retriable


@given(codes)
def test_an_interruption_is_retriable_and_nobodys_fault(code: int | None) -> None:
    """A code says the same each time; what the table does not know is unknown, and never definite."""
    kind = kind_of(code)
    assert kind is kind_of(code)
    if code not in CODES:
        assert kind is Kind.UNKNOWN
        assert not kind.definite


@given(codes, labels, st.sampled_from(LABELS[1:]))
def test_a_label_that_asks_for_another_attempt_never_makes_it_definite(
    code: int | None, given_labels: frozenset[str], label: str
) -> None:
    """Whatever is retriable stays so with more labels; and what is not becomes so, where nothing is lost."""
    before, after = kind_of(code, given_labels), kind_of(code, given_labels | {label})
    if before.retriable:
        assert after.retriable
    if before in (Kind.UNKNOWN, Kind.CONFIGURATION, Kind.PERMISSION):
        assert after is Kind.TRANSIENT


@given(st.frozensets(st.sampled_from(["Interruption", "NetworkError", "RetriableError", "ValidationError"])))
def test_every_interruption_is_retriable(categories: frozenset[str]) -> None:
    """Whatever else the server says of it."""
    assert of_categories(categories).retriable or "Interruption" not in categories


@given(st.lists(links, max_size=4))
def test_a_chain_means_what_its_first_conclusive_link_means(chain: list[Link]) -> None:
    """Total, the same each time, and not changed by what comes behind."""
    fault = fault_in(chain)
    assert fault is fault_in(list(chain))
    conclusive = [link for link in chain if fault_in([link, Link(source=Kind.TRANSIENT)]) is fault_in([link])]
    if conclusive:
        assert fault is fault_in(conclusive[:1])
    assert fault.may_pass == (fault not in (Fault.DEFINITE, Fault.SESSION_LOST))


@given(st.sampled_from([kind for kind in Kind if not kind.definite]), st.text())
def test_what_may_pass_at_the_source_is_never_definite(kind: Kind, text: str) -> None:
    """So it is never held against a collection."""
    assert fault_in([Link(source=kind, words=text)]).may_pass
