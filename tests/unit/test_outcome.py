"""The state machine as a table."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from penstock.backoff import MAX_DELAY_S, Exponential, Fixed, Policy
from penstock.errors import ConfigError
from penstock.job import FINAL, MESSAGE_LIMIT, AttemptError
from penstock.outcome import (
    DONE,
    Cancel,
    Discard,
    Done,
    Failed,
    Outcome,
    Parked,
    ParkedReason,
    Released,
    Retry,
    Snooze,
    TimedOut,
    Transition,
    Waiting,
    decide,
    outcome_of,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PLAIN = Exponential(jitter=0)
ERROR = AttemptError(type="ValueError", message="no such page", traceback="…", attempt=1)
STORED = {
    "kind": "failure",
    "type": "ValueError",
    "message": "no such page",
    "traceback": "…",
    "attempt": 1,
}
SLOW = AttemptError(kind="timeout", type="TimeoutError", message="60 s")


class Attempt(Struct, frozen=True, kw_only=True):
    failures: int = 0
    max_attempts: int = 5
    stuck_since: datetime | None = None


class Never(Random):
    def random(self) -> float:
        return 0.0


def decided(
    outcome: Outcome,
    *,
    policy: Policy = PLAIN,
    rng: Random | None = None,
    park_limit: float = 86_400,
    **job: Any,
) -> Transition:
    return decide(
        Attempt(**job),
        outcome,
        policy=policy,
        now=NOW,
        rng=rng or Never(),
        park_limit=park_limit,
    )


def said(kind: str, message: str) -> dict[str, Any]:
    return {"kind": "failure", "type": kind, "message": message, "traceback": ""}


def again(delay: float, error: dict[str, Any] | None = STORED) -> Transition:
    state = "scheduled" if delay else "ready"
    return Transition(state, delay=delay, counts_failure=True, error=error)  # type: ignore[arg-type]


def ended(reason: str, error: dict[str, Any] | None = STORED) -> Transition:
    return Transition("failed", reason, counts_failure=True, error=error)


TABLE: list[tuple[str, Outcome, dict[str, Any], Transition]] = [
    ("done", Done(), {}, Transition("completed")),
    ("done with a result", Done([1]), {}, Transition("completed", result=[1])),
    ("first failure", Failed(ERROR), {}, again(30)),
    ("third failure", Failed(ERROR), {"failures": 2}, again(120)),
    ("last failure", Failed(ERROR), {"failures": 4}, ended("exhausted")),
    ("only attempt", Failed(ERROR), {"max_attempts": 1}, ended("exhausted")),
    ("limit lowered meanwhile", Failed(ERROR), {"failures": 9}, ended("exhausted")),
    ("Retry-After longer", Failed(ERROR, after=900), {}, again(900)),
    ("Retry-After shorter", Failed(ERROR, after=1), {}, again(1)),
    ("Retry-After at once", Failed(ERROR, after=0), {}, again(0)),
    ("Retry-After in the past", Failed(ERROR, after=-5), {}, again(0)),
    ("Retry-After absurd", Failed(ERROR, after=float("inf")), {}, again(MAX_DELAY_S)),
    ("Retry-After no number", Failed(ERROR, after=float("nan")), {}, again(30)),
    ("Retry-After but exhausted", Failed(ERROR, after=1), {"failures": 4}, ended("exhausted")),
    ("not retryable", Failed(ERROR, retryable=False), {}, ended("discarded")),
    ("no delay", Failed(ERROR), {"policy": Fixed(0)}, again(0)),
    (
        "timeout",
        TimedOut(SLOW),
        {},
        again(30, said("TimeoutError", "60 s") | {"kind": "timeout"}),
    ),
    (
        "last timeout",
        TimedOut(SLOW),
        {"failures": 4},
        ended("exhausted", said("TimeoutError", "60 s") | {"kind": "timeout"}),
    ),
    (
        "retry",
        Retry(),
        {},
        again(30, said("Retry", "The handler asked to be run again.")),
    ),
    (
        "retry with a delay and an error",
        Retry(after=timedelta(seconds=7), error="busy"),
        {},
        again(7, said("Retry", "busy")),
    ),
    (
        "retry exhausted",
        Retry(error="busy"),
        {"failures": 4},
        ended("exhausted", said("Retry", "busy")),
    ),
    ("snooze", Snooze(5), {"failures": 4}, Transition("scheduled", delay=5)),
    ("wait for an event", Waiting("event:go"), {"failures": 4}, Transition("blocked", "event:go")),
    ("wait, badly named", Waiting("event:\0"), {}, Transition("blocked", "event:\ufffd")),
    ("snooze by timedelta", Snooze(timedelta(1)), {}, Transition("scheduled", delay=86_400)),
    ("snooze for a reason", Snooze(5, "busy\0"), {}, Transition("scheduled", "busy\ufffd", 5)),
    ("snooze for no time", Snooze(0), {}, Transition("ready")),
    ("snooze into the past", Snooze(-1), {}, Transition("ready")),
    ("cancel", Cancel("no longer wanted"), {}, Transition("cancelled", "no longer wanted")),
    ("cancel without a reason", Cancel(), {}, Transition("cancelled", "handler")),
    ("discard", Discard("no PDF"), {}, ended("discarded", said("Discard", "no PDF"))),
    (
        "discard without a reason",
        Discard(),
        {},
        ended("discarded", said("Discard", "The handler discarded the job.")),
    ),
    ("released", Released(), {"failures": 4}, Transition("ready")),
]


@pytest.mark.parametrize(
    ("outcome", "given", "expected"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_an_outcome_decides_where_the_job_goes(
    outcome: Outcome, given: dict[str, Any], expected: Transition
) -> None:
    assert decided(outcome, **given) == expected


def parked(reason: ParkedReason, seconds: float | None, **given: Any) -> Transition:
    since = None if seconds is None else NOW - timedelta(seconds=seconds)
    return decided(Parked(reason, ERROR), stuck_since=since, **given)


@pytest.mark.parametrize("reason", ["unknown_task", "bad_arguments", "missing_resource"])
@pytest.mark.parametrize(
    ("stuck_for", "delay"),
    [(None, 10), (0, 10), (9, 10), (25, 25), (300, 300), (3600, 600), (-50, 10)],
)
def test_a_parked_job_waits_as_long_as_it_has_been_stuck(
    reason: ParkedReason, stuck_for: float | None, delay: float
) -> None:
    transition = parked(reason, stuck_for)
    assert (transition.state, transition.reason) == ("scheduled", reason)
    assert transition.delay == delay
    assert transition.stuck
    assert not transition.counts_failure


def test_a_parked_job_says_why_once_and_not_each_time() -> None:
    assert parked("bad_arguments", None).error == STORED
    assert parked("bad_arguments", 600).error is None


@pytest.mark.parametrize("reason", ["unknown_task", "bad_arguments"])
def test_a_parked_job_fails_after_the_limit_with_its_reason(reason: ParkedReason) -> None:
    assert parked(reason, 86_399).state == "scheduled"
    assert parked(reason, 86_400) == Transition("failed", reason, error=STORED)
    assert parked(reason, 60, park_limit=60).state == "failed"


def test_a_job_whose_resource_is_missing_waits_for_ever() -> None:
    assert parked("missing_resource", 10 * 86_400).state == "scheduled"


def test_parked_jobs_do_not_come_back_together() -> None:
    delays = {parked("unknown_task", 300, rng=Random(seed)).delay for seed in range(50)}
    assert len(delays) == 50
    assert all(270 <= delay <= 300 for delay in delays)


def test_done_without_a_result_costs_no_new_object() -> None:
    assert decided(Done()) is DONE


def test_text_of_a_handler_reaches_the_row_clean_and_bounded() -> None:
    assert decided(Cancel("a\0b\ud800")).reason == "a\ufffdb\ufffd"
    error = decided(Discard("é" * 10_000)).error
    assert error is not None
    assert len(error["message"].encode()) <= MESSAGE_LIMIT


@pytest.mark.parametrize("value", ["60", None, True, float("nan")])
def test_a_handler_learns_at_once_that_a_delay_is_no_number(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"Snooze\.delay"):
        Snooze(value)
    if value is not None:
        with pytest.raises(ConfigError, match=r"Retry\.after"):
            Retry(after=value)


def test_a_handlers_return_value_is_an_outcome_or_its_result() -> None:
    assert outcome_of(None) == Done(None)
    assert outcome_of([1]) == Done([1])
    for outcome in (Done(1), Retry(), Snooze(1), Cancel(), Discard()):
        assert outcome_of(outcome) is outcome
    assert outcome_of(Released()) == Done(Released())


outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Done, st.integers()),
    st.builds(Failed, st.just(ERROR), st.booleans(), st.none() | st.floats()),
    st.just(TimedOut(SLOW)),
    st.builds(Snooze, st.floats(allow_nan=False)),
    st.builds(Retry, after=st.none() | st.floats(allow_nan=False), error=st.none() | st.text()),
    st.builds(Cancel, st.none() | st.text()),
    st.builds(Discard, st.none() | st.text()),
    st.just(Released()),
    st.builds(Waiting, st.text()),
    st.builds(Parked, st.sampled_from(["unknown_task", "bad_arguments", "missing_resource"])),
)


@given(outcomes, st.integers(0, 5), st.integers(1, 5), st.none() | st.integers(-(10**6), 10**6))
def test_every_transition_is_one_that_the_tables_accept(
    outcome: Outcome, failures: int, max_attempts: int, stuck: int | None
) -> None:
    since = None if stuck is None else NOW - timedelta(seconds=stuck)
    transition = decided(outcome, failures=failures, max_attempts=max_attempts, stuck_since=since)
    assert transition.state in FINAL | {"ready", "scheduled", "blocked"}
    assert (transition.state == "scheduled") == (transition.delay > 0)
    assert 0 <= transition.delay <= MAX_DELAY_S
    if transition.state in {"failed", "cancelled"}:
        assert transition.reason
