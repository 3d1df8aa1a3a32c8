"""Errors of the database, as HTTP tells them."""

import pytest

from penstock import (
    DatabaseBusy,
    DatabaseDenied,
    DatabaseError,
    DatabaseExhausted,
    DatabaseLost,
    DatabaseReadOnly,
    SchemaTooOld,
)
from penstock.service import problems
from penstock.service.problems import from_error

TOLD = "The database shop on db.internal:5432 says something."


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (DatabaseLost(TOLD), 503, "database-lost"),
        (DatabaseReadOnly(TOLD), 503, "database-read-only"),
        (DatabaseExhausted(TOLD), 503, "database-exhausted"),
        (DatabaseBusy(TOLD), 503, "database-busy"),
        (DatabaseDenied(TOLD), 503, "database-denied"),
        (DatabaseError(TOLD), 500, "database-error"),
    ],
)
def test_only_the_log_names_the_database_of_an_error(
    error: DatabaseError,
    status: int,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(problems, "_logged_at", {})
    told = [from_error(error) for _ in range(3)]
    assert {(each.status, each.kind) for each in told} == {(status, kind)}
    assert "db.internal" not in repr([(each.detail, each.about) for each in told])
    assert [record.getMessage().count("db.internal") for record in caplog.records] == [1]


def test_callers_hear_what_the_schema_lacks_and_not_where_it_is() -> None:
    told = from_error(SchemaTooOld("penstock", 1, 2, place="The database shop on db.internal:5432"))
    assert (told.status, told.kind) == (503, "schema-too-old")
    assert told.detail.startswith("The database has the schema 'penstock' at migration 1")
    assert told.about == {"schema": "penstock", "found": 1, "needed": 2}


def test_callers_hear_whether_it_may_have_been_done() -> None:
    sent, unsent = (from_error(DatabaseLost(TOLD, is_sent=each)) for each in (True, False))
    assert "may have been carried out" in sent.detail
    assert "Nothing was done" in unsent.detail
