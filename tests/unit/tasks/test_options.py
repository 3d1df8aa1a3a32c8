from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from penstock.backoff import Fixed, Function
from penstock.errors import ConfigError, PayloadRefused
from penstock.tasks import Options, task

LATER = datetime(2030, 1, 1, tzinfo=UTC)


@task(queue="mail", priority=5, tags=["nightly"])
def send(address: str) -> int:
    return 1


def test_the_tasks_settings_are_its_jobs_defaults() -> None:
    options = send.prepare("a@b").options
    assert options == Options(queue="mail", priority=5, tags=("nightly",))
    assert (options.max_attempts, options.timeout) == (5, 3600)


def test_options_leave_the_task_as_it_was_and_add_up() -> None:
    urgent = send.options(priority=90).options(tenant="acme")
    assert type(urgent) is type(send)
    assert (urgent.defaults.priority, urgent.defaults.tenant) == (90, "acme")
    assert urgent.defaults.queue == "mail"
    assert send.defaults.priority == 5
    assert urgent.is_same(send)


def test_every_option_reaches_the_request() -> None:
    options = send.options(
        queue="bulk",
        priority=-100,
        run_at=LATER,
        max_attempts=1,
        timeout=timedelta(minutes=2),
        retry=Fixed(5),
        tenant="",
        subject="document:42",
        requested_by="user:7",
        tags=("a", "b", "a"),
        meta={"trace": ["x", None]},
        deadline=LATER,
        idempotency_key="order-7",
    )
    assert options.prepare("a@b").options == Options(
        queue="bulk",
        priority=-100,
        run_at=LATER,
        max_attempts=1,
        timeout=120.0,
        retry='{"kind":"fixed","seconds":5,"jitter":0.0}',
        tenant="",
        subject="document:42",
        requested_by="user:7",
        tags=("a", "b"),
        meta='{"trace":["x",null]}',
        deadline=LATER,
        idempotency_key="order-7",
    )


def test_a_delay_is_seconds_or_a_timedelta() -> None:
    assert send.options(delay=1).defaults.delay == 1
    assert send.options(delay=timedelta(hours=1)).defaults.delay == 3600


def test_of_delay_and_run_at_the_later_given_one_counts() -> None:
    assert send.options(delay=5).options(run_at=LATER).defaults.delay is None
    assert send.options(run_at=LATER).options(delay=5).defaults.run_at is None
    assert send.options(delay=5).options(run_at=None).defaults.delay == 5
    with pytest.raises(ConfigError, match="either a delay or a run_at, not both"):
        send.options(delay=5, run_at=LATER)


def test_a_timeout_of_none_is_no_limit() -> None:
    assert send.options(timeout=None).defaults.timeout is None


NAIVE = datetime(2030, 1, 1)
WEST = timezone(timedelta(hours=-12))


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [
        ("queue", "", "matches"),
        ("queue", "a b", "matches"),
        ("queue", "a\n", "matches"),
        ("queue", "q" * 129, "matches"),
        ("queue", 5, "matches"),
        ("priority", 101, "from -100 to 100"),
        ("priority", 1.5, "whole number"),
        ("priority", True, "whole number"),
        ("delay", -1, "seconds from 0"),
        ("delay", float("nan"), "seconds from 0"),
        ("delay", "5", "seconds from 0"),
        ("run_at", NAIVE, "time zone"),
        ("run_at", 5, "time zone"),
        ("run_at", datetime.min.replace(tzinfo=UTC), "from 1970-01-01 on"),
        ("run_at", datetime.max.replace(tzinfo=UTC), "before 9999-01-01"),
        ("run_at", datetime.max.replace(tzinfo=WEST), "before 9999-01-01"),
        ("max_attempts", 0, "from 1"),
        ("timeout", 0, "more than 0"),
        ("timeout", float("inf"), "seconds from 0"),
        ("retry", 5, "Exponential, Fixed or Listed"),
        ("retry", Function(len), "given to the task itself"),  # type: ignore[arg-type]
        ("tenant", "t" * 201, "0 to 200 characters"),
        ("tenant", "a\0", "without NUL"),
        ("tenant", None, "text of"),
        ("subject", "", "1 to 500 characters"),
        ("subject", "\ud800", "lone surrogates"),
        ("requested_by", 7, "text of"),
        ("tags", "nightly", "list of texts"),
        ("tags", 5, "list of texts"),
        ("tags", [1], "text of"),
        ("tags", [str(n) for n in range(33)], "at most 32"),
        ("meta", [1], "string keys"),
        ("deadline", NAIVE, "time zone"),
        ("deadline", datetime(1969, 12, 31, tzinfo=UTC), "from 1970-01-01 on"),
        ("idempotency_key", "", "1 to 500 characters"),
    ],
)
def test_wrong_option_is_named_with_what_is_allowed(setting: Any, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed) as caught:
        send.options(**{setting: value})
    assert caught.value.setting == setting


def test_an_option_that_does_not_exist_is_a_type_error() -> None:
    with pytest.raises(
        TypeError, match="no option 'retries'; there are queue, lane, limits, priority"
    ):
        send.options(retries=5)  # type: ignore[call-arg]


def test_meta_is_checked_like_arguments() -> None:
    with pytest.raises(PayloadRefused) as caught:
        send.options(meta={"trace": {"id": "a\0b"}})
    assert caught.value.field == "meta.trace.id"
    with pytest.raises(PayloadRefused, match="limit is 65,536"):
        send.options(meta={"text": "x" * 70_000})
    assert send.options(meta={}).defaults.meta is None
    assert send.options(meta=None).defaults.meta is None
