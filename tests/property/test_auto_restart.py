"""When a failed engine is restarted by itself, over all histories of failures and of health."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.configuration.patience import Reconnects, RestartPolicy
from snapshotter.diagnosis import Diagnosis
from snapshotter.engine.auto_restart import Count, due_ms, may_restart
from snapshotter.failure_classes import CONDITIONS, FailureClass
from snapshotter.failures import Fault

MINUTE = 60_000
UNREACHABLE = Diagnosis(CONDITIONS["source-unreachable"], Fault.TRANSIENT)
policies = st.builds(
    RestartPolicy,
    enabled=st.booleans(),
    most=st.one_of(st.none(), st.integers(0, 20)),
    minute_ms=st.integers(1, MINUTE),
)
counts = st.builds(Count, restarts=st.integers(0, 1_000), last_ms=st.one_of(st.none(), st.integers(0, 2**42)))
diagnoses = st.builds(
    Diagnosis, condition=st.sampled_from(list(CONDITIONS.values())), fault=st.sampled_from(Fault)
)
times = st.integers(0, 2**42)


def test_seven_restarts_come_when_strimzi_would_make_them() -> None:
    """At once, then after 2, 6, 12, 20, 30 and 42 minutes: the seventh 112 minutes after the first failure; an eighth
    does not come."""
    policy, count, now = RestartPolicy(enabled=True), Count(), 0
    waits = []
    while (due := due_ms(policy, count, UNREACHABLE, now)) is not None:
        waits.append((due - now) // MINUTE)
        now, count = due, count.restarted(due)
    assert waits == [0, 2, 6, 12, 20, 30, 42]
    assert now == 112 * MINUTE
    assert count == Count(7, now)


@given(policies, counts, diagnoses, times)
def test_a_restart_needs_the_option_a_cure_and_one_that_is_left(
    policy: RestartPolicy, count: Count, found: Diagnosis, now: int
) -> None:
    """All three; and it never comes before the failure, nor sooner than after fewer restarts."""
    due = due_ms(policy, count, found, now)
    left = policy.most is None or count.restarts < policy.most
    assert (due is not None) == (policy.enabled and may_restart(found) and left)
    if due is not None:
        assert due >= now
        sooner = due_ms(policy, Count(max(0, count.restarts - 1)), found, now)
        assert sooner is not None
        assert sooner <= due


@given(counts, diagnoses, times)
def test_unlimited_means_unlimited(count: Count, found: Diagnosis, now: int) -> None:
    """However many there were."""
    unlimited = RestartPolicy(enabled=True, most=None)
    assert (due_ms(unlimited, count, found, now) is not None) == may_restart(found)


@given(policies, counts, st.integers(0, 2**42))
def test_health_for_long_enough_forgets_the_restarts(
    policy: RestartPolicy, count: Count, healthy: int
) -> None:
    """As long as the next restart would wait: 2 minutes after one, 6 after two. The time of the last one stays."""
    left = count.healthy(policy, healthy)
    assert left.last_ms == count.last_ms
    assert left.restarts in (0, count.restarts)
    enough = healthy >= policy.wait_ms(count.restarts)
    assert left.restarts == (0 if enough else count.restarts)


@pytest.mark.parametrize(("restarts", "minutes"), [(1, 2), (2, 6), (3, 12)])
def test_how_long_it_has_to_be_healthy(restarts: int, minutes: int) -> None:
    """A millisecond less is not enough."""
    policy, count = RestartPolicy(enabled=True), Count(restarts, 0)
    assert count.healthy(policy, minutes * MINUTE - 1) == count
    assert count.healthy(policy, minutes * MINUTE) == Count(0, 0)


@given(counts)
def test_a_count_is_kept_as_it_is(count: Count) -> None:
    """To JSON and back."""
    assert Count.from_json(count.to_json()) == count


@pytest.mark.parametrize("failure", FailureClass)
def test_what_is_for_a_person_to_cure_is_not_restarted(failure: FailureClass) -> None:
    """Whatever is said of trying again: credentials, privileges, options, a lost position."""
    for condition in CONDITIONS.values():
        if condition.failure is failure and may_restart(Diagnosis(condition, Fault.TRANSIENT)):
            assert failure not in ("permission", "configuration", "position-lost")


def test_attempts_to_connect_pause_as_debezium_documents() -> None:
    """1, 2, 4 … 64, then 120 seconds; sixteen attempts take 20 minutes and 7 seconds."""
    reconnects = Reconnects()
    pauses = [reconnects.pause_ms(n) // 1_000 for n in range(1, reconnects.attempts + 1)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, *[120] * 9]
    assert sum(pauses) == 20 * 60 + 7


@given(st.integers(1, 10**6), st.integers(1, 10**7), st.integers(1, 10**6))
def test_pauses_never_shrink_and_never_pass_the_longest(initial: int, most: int, attempt: int) -> None:
    """Whatever the options say."""
    reconnects = Reconnects(1, initial, most)
    assert 0 < reconnects.pause_ms(attempt) <= reconnects.pause_ms(attempt + 1) <= most
