"""What an error of the database means, by its SQLSTATE and fields, never by its words."""

import asyncio

import asyncpg
import pytest

from penstock.lifecycle import DatabaseHealth
from penstock.store import errors
from penstock.store.errors import database_lost
from penstock.telemetry import DatabaseGone, Events


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TimeoutError(), "no answer in time"),
        (asyncio.CancelledError(), "it was cancelled"),
        (ConnectionResetError(), "ConnectionResetError"),
        (OSError("no route to host."), "no route to host"),
    ],
)
def test_a_lost_database_is_never_told_without_a_reason(
    error: BaseException, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    lost = database_lost(error, "The database shop on db:5432", is_sent=True, doubt="Try again.")
    assert f"could not be reached: {told}. Try again." in str(lost)
    assert str(lost.__cause__)
    events, seen = Events(), []
    events.subscribe(DatabaseGone, seen.append)
    DatabaseHealth(events).report_outage("lease", error)
    assert f"(lease: {told})" in caplog.text
    assert [event.error for event in seen] == [told]


def error(state: str, **fields: str) -> asyncpg.PostgresError:
    """As asyncpg makes them, of a server that speaks German."""
    return asyncpg.PostgresError.new({"C": state, "M": "Etwas ging schief", "S": "ERROR", **fields})


OF_HISTORY = {"s": "penstock", "t": "job_history"}


@pytest.mark.parametrize(
    ("found", "is_missing"),
    [
        (error("23514", **OF_HISTORY), True),
        (error("23514", **OF_HISTORY, n="no_13"), False),
        (error("23514", s="penstock", t="job_history_20260101"), False),
        (error("23514"), False),
        (error("23505", **OF_HISTORY), False),
    ],
)
def test_a_missing_partition(found: asyncpg.PostgresError, is_missing: bool) -> None:
    assert errors.is_partition_missing(found) is is_missing


@pytest.mark.parametrize(
    ("state", "is_unavailable", "is_passing"),
    [
        ("25006", True, True),  # read-only
        ("53100", True, True),  # disk full
        ("53200", True, True),  # out of memory
        ("53300", True, True),  # too many connections
        ("57P01", True, True),  # ended by an administrator
        ("57P03", True, True),  # starts or stops
        ("08006", True, False),
        ("40P01", False, True),
        ("55P03", False, True),
        ("57014", False, True),
        ("53400", False, True),
        ("58030", False, True),
        ("25P04", False, True),
        ("42501", False, False),
        ("23514", False, False),
        ("P0001", False, False),
    ],
)
def test_what_passes(state: str, is_unavailable: bool, is_passing: bool) -> None:
    found = error(state)
    assert (errors.is_unavailable(found), errors.is_transient(found)) == (
        is_unavailable,
        is_passing,
    )


@pytest.mark.parametrize(
    ("found", "is_row_fault"),
    [
        (error("P0001"), True),
        (error("23514", **OF_HISTORY, n="no_13"), True),
        (error("22P02"), True),
        (TypeError("cannot be encoded"), True),
        (error("23514", **OF_HISTORY), False),
        (error("42501"), False),
        (error("42883"), False),
        (error("28P01"), False),
        (error(errors.PARTITION_DETACHED), False),
    ],
)
def test_whose_fault_it_is(found: Exception, is_row_fault: bool) -> None:
    assert errors.is_row_fault(found) is is_row_fault


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (error("53100"), "Etwas ging schief (SQLSTATE 53100)"),
        (ConnectionResetError("reset by peer"), "reset by peer"),
        (TimeoutError(), "no answer in time"),
        (ConnectionResetError(), "ConnectionResetError"),
        (asyncpg.InterfaceError(""), "InterfaceError"),
    ],
)
def test_a_cause_is_never_empty(found: Exception, cause: str) -> None:
    assert errors.cause(found) == cause


class Refused(Exception):
    sqlstate = "42P01"

    def __init__(self, context: str) -> None:
        self.context = context


@pytest.mark.parametrize(
    "line",
    [
        "PL/pgSQL function {}() line 3 at SQL statement",
        "PL/pgSQL-Funktion {}() Zeile 3 bei SQL-Anweisung",
        "fonction PL/pgSQL {}(), ligne 3, à instruction SQL",
        "在SQL 语句的第3行的PL/pgSQL函数{}()",
        "PL/pgSQL関数{}()の3行目 - SQLステートメント",
    ],
)
def test_a_function_is_found_in_the_context_in_every_language(line: str) -> None:
    within = f"{line.format('penstock.enqueue_v1')}\nSELECT f(x)"

    def theirs(name: str) -> str | None:
        return errors.foreign_function(Refused(f"{line.format(name)}\n{within}"), "penstock")

    assert theirs("shop.note") == "shop.note"
    assert theirs("note") == "note"
    assert theirs('"Shop"."Note it"') == '"Shop"."Note it"'
    assert theirs("penstock.settle_v1") is None
    assert theirs("settle_v1") is None
    assert errors.foreign_function(Refused(""), "penstock") is None
