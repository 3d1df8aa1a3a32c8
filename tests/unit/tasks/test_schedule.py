"""Schedules as code declares them: all that is wrong with one is said where it is declared."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Penstock, Unique
from penstock.errors import ConfigError


@pytest.fixture
def app() -> Penstock:
    return Penstock("postgresql://nowhere")


def test_a_declaration_has_its_parts_as_they_are_stored(app: Penstock) -> None:
    @app.task
    async def report(kind: str = "all") -> None: ...

    app.schedule(
        "nightly",
        report.options(tenant="acme").prepare("sales"),
        cron="@daily",
        timezone="Europe/Berlin",
        jitter=timedelta(minutes=1),
        overlap="queue_one",
        catch_up="once",
        on_start=True,
        wins="code",
    )
    app.schedule("often", report, every=timedelta(minutes=5))
    nightly, often = app.timetable
    assert (nightly.rule.cron, nightly.rule.timezone, nightly.jitter) == (
        "0 0 * * *",
        "Europe/Berlin",
        60.0,
    )
    assert (nightly.request.args, nightly.request.options.tenant) == ('{"kind":"sales"}', "acme")
    assert (often.rule.every, often.overlap, often.catch_up, often.wins) == (
        300.0,
        "skip",
        "skip",
        "runtime",
    )
    assert app.timetable.names() == ["nightly", "often"]


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("cron", {}),
        ("cron", {"cron": "* * * * *", "every": 60}),
        ("cron", {"cron": "every day"}),
        ("every", {"every": 0}),
        ("timezone", {"cron": "@daily", "timezone": "Mars/Olympus"}),
        ("timezone", {"every": 60, "timezone": "Mars/Olympus"}),
        ("timezone", {"every": 60, "timezone": "Europe/Berlin"}),
        ("jitter", {"every": 60, "jitter": 61}),
        ("jitter", {"every": 60, "jitter": -1}),
        ("jitter", {"every": 60, "jitter": timedelta(days=2)}),
        ("overlap", {"every": 60, "overlap": "maybe"}),
        ("catch_up", {"every": 60, "catch_up": "some"}),
        ("wins", {"every": 60, "wins": "nobody"}),
        ("schedule", {"name": "two words", "every": 60}),
        ("request", {"what": "report", "every": 60}),
    ],
)
def test_what_cannot_be_is_refused_at_the_declaration(
    app: Penstock, setting: str, given: dict[str, Any]
) -> None:
    @app.task
    async def report() -> None: ...

    with pytest.raises(ConfigError) as caught:
        app.schedule(**{"name": "nightly", "what": report} | given)
    assert caught.value.setting == setting


@pytest.mark.parametrize(
    "options",
    [
        {"delay": 5},
        {"run_at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"deadline": datetime(2030, 1, 1, tzinfo=UTC)},
        {"idempotency_key": "once"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_say_when_are_refused(app: Penstock, options: dict[str, Any]) -> None:
    @app.task
    async def report() -> None: ...

    with pytest.raises(ConfigError, match="the schedule says when"):
        app.schedule("nightly", report.options(**options), every=60)


def test_schedule_refuses_unique_jobs_that_raise(app: Penstock) -> None:
    @app.task
    async def report() -> None: ...

    with pytest.raises(ConfigError, match="a tick has no caller"):
        app.schedule("nightly", report.options(unique=Unique(on_conflict="raise")), every=60)
    app.schedule("nightly", report.options(unique=Unique(on_conflict="supersede")), every=60)


def test_a_name_is_given_once(app: Penstock) -> None:
    @app.task
    async def report() -> None: ...

    app.schedule("nightly", report, every=60)
    with pytest.raises(ConfigError, match="Two schedules have the name 'nightly'"):
        app.schedule("nightly", report, every=30)


def test_a_task_that_needs_arguments_is_refused_without_them(app: Penstock) -> None:
    @app.task
    async def report(kind: str) -> None: ...

    with pytest.raises(TypeError, match="kind"):
        app.schedule("nightly", report, every=60)
