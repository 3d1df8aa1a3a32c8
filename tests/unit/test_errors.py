"""Messages are whole sentences that name the thing and say what to do."""

from datetime import timedelta

import pytest

from penstock import errors
from penstock.errors import (
    ArgumentsDoNotFit,
    BadArgument,
    BatchClosed,
    BatchNotFound,
    BatchTimeout,
    BudgetTooSmall,
    ChildStarted,
    ConfigError,
    DatabaseBusy,
    DatabaseDenied,
    DatabaseError,
    DatabaseExhausted,
    DatabaseLost,
    DatabaseReadOnly,
    DuplicateStep,
    DuplicateTask,
    EmbeddedError,
    EventTimeout,
    IdempotencyMismatch,
    JobCancelled,
    JobConflict,
    JobFailed,
    JobNotFound,
    KeyNotFound,
    LastAdmin,
    LeaseLost,
    Misuse,
    NameTaken,
    NotAllowed,
    NotRetryable,
    ParentNotFound,
    PayloadRefused,
    PayloadTooLarge,
    PenstockError,
    PersonNotFound,
    PollTimeout,
    RequestRefused,
    ResourceMissing,
    Retryable,
    RolesUnfit,
    ScheduleNotFound,
    SchemaError,
    SchemaMissing,
    SchemaRenamed,
    SchemaTooNew,
    SchemaTooOld,
    ServiceUnreachable,
    StaleAttempt,
    StartTimeout,
    StepDoesNotFit,
    StepUnclear,
    TenantMismatch,
    TenantMissing,
    TenantUnguarded,
    TooManySteps,
    UniqueConflict,
    UnknownBudget,
    UnknownTask,
    WaitTimeout,
    WorkflowCycle,
    WorkflowNotFound,
    WorkflowRefused,
    WorkflowTimeout,
)

EXAMPLES = [
    KeyNotFound("ci"),
    LastAdmin("key 'ci'"),
    NameTaken("key", "ci", "free this one with `penstock keys revoke ci`"),
    PersonNotFound("ada"),
    TenantUnguarded("acme"),
    ConfigError("queue", "a b", "a name"),
    BadArgument("limit", 5000, "1 to 1000"),
    Misuse("A task needs a name, and a lambda has none."),
    EmbeddedError("The embedded Postgres did not start within 30 s."),
    SchemaMissing("penstock"),
    SchemaRenamed("jobs", "penstock"),
    SchemaTooOld("penstock", 1, 2),
    SchemaTooNew("penstock", 3, 2),
    NotAllowed("shop_web", "permission denied for table job", "Log in as the owner."),
    RolesUnfit("The role shop may not create roles.", "CREATE ROLE penstock_app NOLOGIN;"),
    DuplicateTask("mail.send", "a.py:1", "b.py:2"),
    UnknownTask("mail.send"),
    PayloadRefused("profile.name", "it contains a NUL character", "Take it out."),
    PayloadTooLarge("body", 2_000_000, 1_048_576),
    ArgumentsDoNotFit("mail.send", "to", "Expected `str`, got `int`"),
    IdempotencyMismatch("order-7", "42"),
    UniqueConflict("index:7", "42"),
    BatchNotFound("7"),
    BatchClosed("7"),
    BatchTimeout("7", "open", 3, 5.0),
    BatchTimeout("7", "running", 3, 5.0),
    WorkflowNotFound("7"),
    WorkflowCycle("a", "b", "a"),
    ParentNotFound("42", "7"),
    ChildStarted("42", "7"),
    StepUnclear("merge", "7", 2),
    WorkflowTimeout("7", "running", 5.0),
    TenantMismatch("acme", "globex"),
    TenantMissing(),
    TenantMissing("acme"),
    JobNotFound("42"),
    ScheduleNotFound("nightly", ["nightly-report"]),
    JobConflict("42", "running", "retried"),
    StartTimeout("w1", 60.0, None),
    StartTimeout("w1", 60.0, OSError("no route")),
    WaitTimeout("42", "running", 2.5),
    JobFailed("42", "exhausted", "ValueError", "no such page"),
    JobCancelled("42", "handler"),
    LeaseLost("7"),
    StaleAttempt("42", 3),
    ResourceMissing("HttpClient", "mail.send"),
    DuplicateStep("fetch"),
    StepDoesNotFit("fetch", "Expected `int`, got `str`"),
    TooManySteps(10_001, 5, 10_000, 1_000_000),
    EventTimeout("approved:42"),
    PollTimeout("words", 3),
    BudgetTooSmall("openai", 1200, 1000),
    UnknownBudget("openai"),
    DatabaseError("The database shop on db:5432 refuses: no such day (22008). Look at its cause."),
    DatabaseLost("The connection broke."),
    DatabaseExhausted("The database shop on db:5432 takes no more connections."),
    DatabaseReadOnly("The database shop on db:5432 takes no writes."),
    DatabaseBusy("The database shop on db:5432 cancelled the statement."),
    DatabaseDenied("The database shop on db:5432 refused the login of the role."),
    RequestRefused(422, "does-not-fit", "args.name is required", {"args.name": "is required"}),
    ServiceUnreachable("connection refused", is_sent=False),
    ServiceUnreachable("timed out", is_sent=True),
    Retryable("The model API is busy.", after=30),
    NotRetryable("The file is no PDF."),
]


def test_every_error_is_a_penstock_error_and_drawn_in_the_tree() -> None:
    classes = [
        one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)
    ]
    assert all(issubclass(one, PenstockError) for one in classes)
    assert errors.__doc__ is not None
    assert [one.__name__ for one in classes if one.__name__ not in errors.__doc__] == []
    assert {type(one) for one in EXAMPLES} == set(classes) - {
        PenstockError,
        SchemaError,
        WorkflowRefused,
    }


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_messages_are_whole_sentences(error: PenstockError) -> None:
    text = str(error)
    assert text[0].isupper()
    assert text[-1] in ".?"


@pytest.mark.parametrize("error", [one for one in EXAMPLES if hasattr(one, "job_id")], ids=str)
def test_messages_about_a_job_name_its_id(error: PenstockError) -> None:
    assert "42" in str(error)


def test_a_setting_is_shown_with_its_value_and_what_is_allowed() -> None:
    error = ConfigError("priority", 101, "a whole number from -100 to 100")
    assert str(error) == (
        "The setting priority is 101; it must be a whole number from -100 to 100."
    )
    assert (error.setting, error.value) == ("priority", 101)


def test_a_long_or_unprintable_value_does_not_flood_the_message() -> None:
    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError

    assert len(str(ConfigError("name", "x" * 10_000, "a name"))) < 200
    assert "Unprintable" in str(ConfigError("name", Unprintable(), "a name"))


def test_an_unknown_task_suggests_what_was_meant() -> None:
    assert "Did you mean 'mail.send'?" in str(UnknownTask("mail.sned", ["mail.send", "report"]))
    assert "Registered are a, b." in str(UnknownTask("zzzzzzzz", ["b", "a"]))
    assert "has no tasks" in str(UnknownTask("mail.send"))


def test_a_failed_job_carries_its_last_error_as_text() -> None:
    error = JobFailed("42", "exhausted", "ValueError", "no such page")
    assert "failed (exhausted) with ValueError: no such page" in str(error)
    assert (error.error_type, error.error_message) == ("ValueError", "no such page")


def test_retryable_takes_seconds_or_a_timedelta() -> None:
    assert Retryable("busy").after is None
    assert Retryable("busy", after=1.5).after == 1.5
    assert Retryable("busy", after=timedelta(minutes=2)).after == 120
