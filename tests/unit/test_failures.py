"""What an error of the database means, by its SQLSTATE and fields, never by its words."""

import asyncpg
import pytest

from penstock.store import failures


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
    assert failures.is_partition_missing(found) is is_missing


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
    assert (failures.is_unavailable(found), failures.is_passing(found)) == (
        is_unavailable,
        is_passing,
    )


@pytest.mark.parametrize(
    ("found", "is_of_row"),
    [
        (error("P0001"), True),
        (error("23514", **OF_HISTORY, n="no_13"), True),
        (error("22P02"), True),
        (TypeError("cannot be encoded"), True),
        (error("23514", **OF_HISTORY), False),
        (error("42501"), False),
        (error("42883"), False),
        (error("28P01"), False),
        (error(failures.PARTITION_DETACHED), False),
    ],
)
def test_whose_fault_it_is(found: Exception, is_of_row: bool) -> None:
    assert failures.is_of_row(found) is is_of_row
