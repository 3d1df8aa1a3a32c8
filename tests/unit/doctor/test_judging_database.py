"""What the doctor makes of what it read about the database: tables, without a database."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.doctor.check import CheckLimits, Verdict
from penstock.doctor.checks import database as checks_database
from penstock.doctor.checks.database import (
    RULES,
    ClockReading,
    Pooling,
    Reached,
    ServerFacts,
    Setting,
    Usage,
)

LIMITS = CheckLimits()
NOON = datetime(2026, 7, 18, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("major", "standby", "latency", "verdict"),
    [
        (18, False, 0.0004, "ok"),
        (15, False, 0.09, "ok"),
        (15, False, 0.11, "warning"),
        (14, False, 0.0004, "error"),
        (18, True, 0.0004, "error"),
    ],
)
def test_a_server(major: int, standby: bool, latency: float, verdict: str) -> None:
    server = ServerFacts(f"{major}.1", major, standby, "shop", "ada")
    [finding] = checks_database.judge_connection(Reached(server, latency), LIMITS)
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("ahead", "round_trip", "verdict"),
    [
        (0, 0.001, "ok"),
        (1.9, 0.001, "ok"),
        (2.1, 0.001, "warning"),
        (-2.1, 0.001, "warning"),
        # So far away that nobody can tell.
        (2.1, 1.0, "ok"),
        (61, 0.001, "error"),
        (-3600, 0.001, "error"),
    ],
)
def test_a_clock(ahead: float, round_trip: float, verdict: str) -> None:
    trip = timedelta(seconds=round_trip)
    reading = ClockReading(NOON, NOON + trip / 2 + timedelta(seconds=ahead), NOON + trip)
    [finding] = checks_database.judge_clock(reading, LIMITS)
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("autovacuum", "on", None),
        ("autovacuum", "off", "error"),
        ("track_counts", "off", "error"),
        ("fsync", "off", "error"),
        ("full_page_writes", "off", "error"),
        ("synchronous_commit", "on", None),
        ("synchronous_commit", "remote_apply", None),
        ("synchronous_commit", "off", "warning"),
        ("default_transaction_read_only", "on", "error"),
        ("default_transaction_isolation", "read committed", None),
        ("default_transaction_isolation", "repeatable read", "warning"),
        ("default_transaction_isolation", "serializable", "warning"),
        ("statement_timeout", "0", None),
        ("statement_timeout", "4999", "warning"),
        ("statement_timeout", "5000", None),
        ("lock_timeout", "0", None),
        ("lock_timeout", "100", "warning"),
        ("idle_in_transaction_session_timeout", "0", None),
        ("idle_in_transaction_session_timeout", "2000", "warning"),
        ("idle_session_timeout", "60000", "warning"),
        ("transaction_timeout", "1000", "warning"),
    ],
)
def test_a_setting(name: str, value: str, verdict: str | None) -> None:
    [finding] = checks_database.judge_settings([Setting(name, value, "ada")], LIMITS)
    assert finding.verdict == (verdict or "ok")
    assert bool(finding.paste) == (verdict is not None)


def test_every_good_value_is_good_by_its_own_rule() -> None:
    for rule in RULES:
        value = rule.good.strip("'")
        if value.endswith(("s", "min")):
            value = "60000"
        assert not rule.is_bad(value), rule.name


@pytest.mark.parametrize(
    ("used", "most", "verdict"),
    [(1, 97, "ok"), (79, 100, "ok"), (80, 100, "warning"), (95, 100, "error"), (0, 0, "error")],
)
def test_connections(used: int, most: int, verdict: str) -> None:
    [finding] = checks_database.judge_connections([Usage("server", "", used, most)], LIMITS)
    assert finding.verdict == verdict


def test_each_limit_of_connections_is_judged_by_itself() -> None:
    usages = [
        Usage("server", "", 5, 100),
        Usage("database", "shop", 9, 10),
        Usage("role", "ada", 10, 10),
    ]
    findings = checks_database.judge_connections(usages, LIMITS)
    assert [finding.verdict for finding in findings] == [Verdict.WARNING, Verdict.ERROR]
    assert findings[0].paste[-1] == 'ALTER DATABASE "shop" CONNECTION LIMIT 20;'
    assert findings[1].paste[-1] == 'ALTER ROLE "ada" CONNECTION LIMIT 20;'


@pytest.mark.parametrize(
    ("way", "word"),
    [
        (Pooling(pooled=False), "No pooler is between"),
        (Pooling(pooled=True), "a backend of its own"),
        (Pooling(pooled=True, shared=True), "transaction mode"),
    ],
)
def test_a_pooler(way: Pooling, word: str) -> None:
    [finding] = checks_database.judge_pooler(way, LIMITS)
    assert (finding.verdict, word in finding.seen) == (Verdict.OK, True)
