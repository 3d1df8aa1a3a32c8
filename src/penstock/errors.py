"""Everything Penstock raises.

PenstockError
├── ConfigError              a setting has a value that is not allowed
│   ├── BadArgument          an argument of a call has
│   └── Misuse               the code cannot work as it is written, such as a lambda without a name
├── EmbeddedError            the embedded Postgres could not be started or used
├── SchemaError              the database's schema is not the one this version needs
│   ├── SchemaMissing
│   ├── SchemaRenamed
│   ├── SchemaTooOld
│   └── SchemaTooNew
├── NotAllowed               the database's role has no right to what was asked
├── RolesUnfit               row level security lacks its roles, or they may too much
├── TenantUnguarded          a key for one tenant, where nothing keeps tenants apart
├── NameTaken                a key or a person of this name is there already
├── KeyNotFound
├── PersonNotFound
├── LastAdmin                without this key or person nobody could let others in
├── DuplicateTask            two tasks want one name
├── UnknownTask              no task is registered under this name
├── PayloadRefused           a value cannot be stored as JSON in Postgres
│   └── PayloadTooLarge
├── ArgumentsDoNotFit        stored arguments no longer fit the task's parameters
├── IdempotencyMismatch      a key was used before, with other arguments
├── UniqueConflict           another job holds the unique key, and the caller wants to hear of it
├── BatchNotFound
├── BatchClosed              no job can be added to it any more
├── BatchTimeout             the batch was not finished in the time given to wait (a TimeoutError)
├── WorkflowNotFound
├── WorkflowRefused          jobs cannot wait for each other like this
│   ├── WorkflowCycle        they would wait for each other in a circle
│   ├── ParentNotFound       a job to wait for is not there
│   ├── ChildStarted         a job that is to wait has started already
│   └── StepUnclear          no step of a workflow has this name, or several have
├── TenantMismatch           a job of one tenant, in a transaction of another
├── TenantMissing            row level security is on, and the transaction has no tenant
├── JobNotFound
├── ScheduleNotFound
├── JobConflict              the job's state does not allow this (retry of a running job)
├── WaitTimeout              the job was not, either (a TimeoutError)
├── WorkflowTimeout          the workflow was not, either (a TimeoutError)
├── JobFailed                the job waited for has failed
├── JobCancelled             the job waited for was cancelled
├── StartTimeout             a worker got no lease in the time given to start (a TimeoutError)
├── LeaseLost                the worker's lease expired or was taken away
├── StaleAttempt             the fence refused: a newer attempt owns the job
├── ResourceMissing          a task needs a resource that this worker did not open
├── DuplicateStep            two steps of one attempt want one name
├── StepDoesNotFit           a step's result does not fit what its function says it returns
├── TooManySteps             a job keeps more steps, or longer results, than an attempt can read
├── EventTimeout             an event that a job waited for was not sent in time (a TimeoutError)
├── PollTimeout              an outside operation was not over after all polls (a TimeoutError)
├── BudgetTooSmall           a budget never holds as many units as were asked for
├── UnknownBudget            no limit with a rate is set for this key
├── RequestRefused           a service has refused a request, and not in words of the engine
├── ServiceUnreachable       a service did not answer
├── DatabaseError            Postgres did not do what was asked; the message names it and says why
│   ├── DatabaseLost         it cannot be reached, the connection broke, or no answer came in time
│   ├── DatabaseExhausted    it has run out of disk, memory, connections or locks
│   ├── DatabaseReadOnly     it takes no writes: a standby, or a failover is under way
│   ├── DatabaseBusy         a statement met a timeout, a lock or a deadlock: try again
│   └── DatabaseDenied       it does not let the role in, or has no such database
├── Retryable                for handlers to raise: try again, perhaps after a while
└── NotRetryable             for handlers to raise: trying again is pointless
"""

import shlex
from collections.abc import Iterable
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

SOME_DATABASE = "The database"
VALUE_SHOWN = 80
NAMES_SHOWN = 10


class PenstockError(Exception):
    """The root: catch it to catch everything that Penstock raises."""


# Settings and installation


class ConfigError(PenstockError):
    """A setting has a value that is not allowed."""

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        self.setting = setting
        self.value = value
        self.allowed = allowed
        super().__init__(f"The setting {setting} is {_shown(value)}; allowed is {allowed}.")


class BadArgument(ConfigError):
    """An argument of a call has a value that is not allowed."""

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        super().__init__(setting, value, allowed)
        self.args = (f"The argument {setting} is {_shown(value)}; it must be {allowed}.",)


class Misuse(ConfigError):
    """The code cannot work as it is written: the message says why, and what to write instead."""

    def __init__(self, message: str, setting: str = "task") -> None:
        super().__init__(setting, None, message)
        self.args = (message,)


class EmbeddedError(PenstockError):
    """The embedded Postgres could not be started or used; the message says why."""


class SchemaError(PenstockError):
    """The database's schema is not the one this version of Penstock needs."""

    def __init__(self, schema: str, problem: str, place: str) -> None:
        self.schema = schema
        self._problem = problem
        super().__init__(f"{place} {problem}")

    @property
    def anywhere(self) -> str:
        """The message without the host and the name of the database."""
        return f"{SOME_DATABASE} {self._problem}"


class SchemaMissing(SchemaError):
    def __init__(self, schema: str, *, place: str = SOME_DATABASE) -> None:
        problem = f"has no Penstock tables in the schema {schema!r}. Run {_migrate(schema)} first."
        super().__init__(schema, problem, place)


class SchemaTooOld(SchemaError):
    def __init__(self, schema: str, found: int, needed: int, *, place: str = SOME_DATABASE) -> None:
        self.found = found
        self.needed = needed
        problem = (
            f"has the schema {schema!r} at migration {found}, but this version of Penstock needs "
            f"{needed}. Run {_migrate(schema)}."
        )
        super().__init__(schema, problem, place)


class SchemaTooNew(SchemaError):
    def __init__(self, schema: str, found: int, newest: int, *, place: str = SOME_DATABASE) -> None:
        self.found = found
        self.newest = newest
        problem = (
            f"has the schema {schema!r} at migration {found}, but this version of Penstock knows "
            f"only up to {newest}. Upgrade Penstock here."
        )
        super().__init__(schema, problem, place)


class SchemaRenamed(SchemaError):
    def __init__(self, schema: str, former: str, *, place: str = SOME_DATABASE) -> None:
        self.former = former
        problem = (
            f"has the schema {schema!r}, which was renamed: its functions still look for their "
            f"tables in {former}. Run {_migrate(schema)}, which mends them."
        )
        super().__init__(schema, problem, place)


class NotAllowed(PenstockError):
    """The role that the database is asked as has no right to this; its cause is the driver's error.

    `role` is None where it could not be asked any more, as in a transaction of your own.
    """

    def __init__(
        self, role: str | None, refused: str, remedy: str, *, place: str = SOME_DATABASE
    ) -> None:
        self.role = role
        self.refused = refused
        self.remedy = remedy
        who = f"the role {role}" if role else "the role of this connection"
        super().__init__(f"{place} does not let {who} do this: {refused}. {remedy}")


class RolesUnfit(PenstockError):
    """The roles that row level security is made for do not exist, or see every tenant's rows.

    `remedy` is the SQL for an administrator to run.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(
            f"{problem} Let an administrator of the server run this, then try again: `{remedy}`."
        )


class TenantUnguarded(PenstockError):
    """A key was to be bound to a tenant, and row level security, which would hold it, is off."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(
            f"A key for the tenant {tenant!r} alone needs row level security, which is off: run "
            "`penstock migrate --rls` first."
        )


# Keys and people


class NameTaken(PenstockError):
    def __init__(self, kind: str, name: str, remedy: str) -> None:
        self.name = name
        super().__init__(f"There is a {kind} {name!r} already: take another name, or {remedy}.")


class KeyNotFound(PenstockError):
    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"There is no key {key!r} in use: name it by its id or its name, as "
            "`penstock keys list --all` shows them."
        )


class PersonNotFound(PenstockError):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"There is no person {name!r}; `penstock people list` shows those there are."
        )


class LastAdmin(PenstockError):
    """Without this key or person nobody could make keys or let people in over HTTP."""

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(
            f"The {who} is the last with the right `admin`. Give it to another key or person "
            "first; where the database can be reached, `penstock keys` and `penstock people` can "
            "take it from the last, too."
        )


# Tasks and their arguments


class DuplicateTask(PenstockError):
    """Two different tasks want one name."""

    def __init__(self, name: str, first: str, second: str) -> None:
        self.name = name
        self.first = first
        self.second = second
        super().__init__(
            f"Two tasks want the name {name!r}: the one at {first} and the one at {second}. "
            "Give one of them another name with task(name=...)."
        )


class UnknownTask(PenstockError):
    """No task is registered under this name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        super().__init__(
            f"No task is registered under the name {name!r}. {_nearest(name, sorted(known))}"
        )


class PayloadRefused(PenstockError):
    """A value cannot be stored; `field` is the path to it, such as `profile.name`."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"The field {field} cannot be stored: {problem}. {remedy}")


class PayloadTooLarge(PayloadRefused):
    def __init__(self, field: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            field,
            f"it takes {size:,} bytes as JSON and the limit is {limit:,}",
            "Store the content elsewhere and pass a reference to it, such as a key or a path.",
        )


class ArgumentsDoNotFit(PenstockError):
    """Stored arguments no longer fit the task's parameters."""

    def __init__(self, task: str, field: str | None, problem: str) -> None:
        self.task = task
        self.field = field
        self.problem = problem
        place = f" at {field}" if field else ""
        super().__init__(
            f"The stored arguments do not fit the task {task!r}{place}: {problem.rstrip('.')}. "
            "Deploy the code that knows them, or raise args_version and add an upcaster."
        )


class IdempotencyMismatch(PenstockError):
    """An idempotency key was used before, with other arguments."""

    def __init__(self, key: str, job_id: str) -> None:
        self.key = key
        self.job_id = job_id
        super().__init__(
            f"The idempotency key {key!r} belongs to job {job_id}, which was enqueued with "
            "another task or other arguments. Use a new key for a new request."
        )


class UniqueConflict(PenstockError):
    """A unique key is held by another job, or given to two jobs of one call."""

    def __init__(self, key: str, job_id: str | None) -> None:
        self.key = key
        self.job_id = job_id
        told, remedy = "is given to two jobs of one call", "Leave one of them out"
        if job_id:
            told, remedy = f"is held by job {job_id}", "Wait for that job"
        super().__init__(
            f"The unique key {key!r} {told}. {remedy}, or choose another on_conflict: "
            "skip, replace or supersede."
        )


class BatchNotFound(PenstockError):
    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(
            f"There is no batch {batch_id}. It may be long finished and removed, or the id is from "
            "another database or tenant."
        )


class BatchClosed(PenstockError):
    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(
            f"Batch {batch_id} is closed: no job can be added to it any more. Add jobs before "
            "closing it, or begin another batch."
        )


class BatchTimeout(PenstockError, TimeoutError):
    """A batch was not finished in the time given to wait; `why` says what its jobs wait for."""

    def __init__(
        self, batch_id: str, state: str, pending: int, seconds: float, why: str = ""
    ) -> None:
        self.batch_id = batch_id
        self.state = state
        self.pending = pending
        self.seconds = seconds
        self.why = why
        left = f"{pending:,} job{'' if pending == 1 else 's'} to go"
        what = "still open" if state == "open" else f"still running, with {left},"
        remedy = (
            "Close it, or nothing finishes it." if state == "open" else "It goes on regardless."
        )
        told = f" {why}" if why else ""
        super().__init__(
            f"Batch {batch_id} is {what} after a wait of {seconds:g} s.{told} {remedy}"
        )


class WorkflowNotFound(PenstockError):
    def __init__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"There is no workflow {workflow_id}. Its history may have expired, or the id is from "
            "another database or tenant."
        )


class WorkflowRefused(PenstockError):
    """Jobs cannot wait for each other like this."""


class WorkflowCycle(WorkflowRefused):
    def __init__(self, *steps: str) -> None:
        self.steps = steps
        super().__init__(
            f"These would wait for each other in a circle: {' → '.join(steps)}. "
            "Let one of them wait for less."
        )


class ParentNotFound(WorkflowRefused):
    def __init__(self, job_id: str, workflow_id: str) -> None:
        self.job_id = job_id
        self.workflow_id = workflow_id
        super().__init__(
            f"There is no job {job_id} to wait for in workflow {workflow_id}. It was deleted, its "
            "history has expired, or it belongs to another workflow."
        )


class ChildStarted(WorkflowRefused):
    def __init__(self, job_id: str, workflow_id: str) -> None:
        self.job_id = job_id
        self.workflow_id = workflow_id
        super().__init__(
            f"Job {job_id} cannot be made to wait: it has started, or is not of workflow "
            f"{workflow_id}. Put new jobs before one that has not started."
        )


class StepUnclear(WorkflowRefused):
    """A step is meant by its name, and the workflow has none of that name, or several."""

    def __init__(self, name: str, workflow_id: str, number: int) -> None:
        self.name = name
        self.workflow_id = workflow_id
        self.number = number
        has = f"{number:,} steps" if number else "no step"
        super().__init__(
            f"Workflow {workflow_id} has {has} with the name {name!r}. Name the job itself: pass "
            "what start_workflow or enqueue gave for it."
        )


class TenantMismatch(PenstockError):
    """A call names one tenant where the client or the transaction is set to another."""

    def __init__(self, tenant: str, bound_to: str) -> None:
        self.tenant = tenant
        self.bound_to = bound_to
        super().__init__(
            f"The call is for tenant {tenant!r}, but it is made as tenant {bound_to!r}. Leave the "
            f"tenant out, or make the call with app.for_tenant({tenant!r})."
        )


class TenantMissing(PenstockError):
    """Row level security is on, and the transaction is set to no tenant.

    `tenant` is the one that the job itself names, with `task.options(tenant=...)`.
    """

    def __init__(self, tenant: str | None = None) -> None:
        self.tenant = tenant
        if tenant:
            told = (
                f"The job names the tenant {tenant!r}, but its transaction is set to none, and "
                f"row level security goes by that. Use app.for_tenant({tenant!r})"
            )
        else:
            told = (
                "No tenant is set, and row level security is on: a job must belong to one. Use "
                "app.for_tenant(…)"
            )
        super().__init__(f"{told}, or SET LOCAL penstock.tenant in your transaction.")


# Jobs


class JobNotFound(PenstockError):
    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"There is no job {job_id}. Its history may have expired, or the id is from "
            "another database or tenant."
        )


class ScheduleNotFound(PenstockError):
    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        near = get_close_matches(name, known, n=3)
        meant = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        super().__init__(
            f"There is no schedule {name!r}. {meant}A worker writes those of the code at its "
            "start, as app.sync_schedules() does. To make one, say what it enqueues and when: "
            "`penstock schedules set NAME --task TASK --cron CRON`, or app.set_schedule()."
        )


class JobConflict(PenstockError):
    """The job's state does not allow what was asked.

    `remedy` is a whole sentence; without one the message says to look at the job again.
    """

    def __init__(self, job_id: str, state: str, action: str, remedy: str | None = None) -> None:
        self.job_id = job_id
        self.state = state
        self.action = action
        remedy = remedy or "Look at its present state and decide again."
        super().__init__(f"Job {job_id} is {state}: it cannot be {action} now. {remedy}")


class StartTimeout(PenstockError, TimeoutError):
    """A worker could not take its lease in time."""

    def __init__(
        self,
        worker: str,
        seconds: float,
        cause: BaseException | None,
        *,
        place: str = SOME_DATABASE,
    ) -> None:
        self.worker = worker
        self.seconds = seconds
        why = str(cause or "") or "no answer came"
        super().__init__(
            f"{place} gave worker {worker} no lease within {seconds:g} s: {why.rstrip('.')}. Start "
            "it again when the database takes writes; `penstock work` waits for that."
        )


class WaitTimeout(PenstockError, TimeoutError):
    """A job was not done in the time given to wait; `why` says what it waits for, if known."""

    def __init__(self, job_id: str, state: str, seconds: float, why: str = "") -> None:
        self.job_id = job_id
        self.state = state
        self.seconds = seconds
        self.why = why
        told = f" {why}" if why else ""
        super().__init__(
            f"Job {job_id} is still {state} after a wait of {seconds:g} s.{told} "
            "The job is kept: wait again, or cancel it."
        )


class WorkflowTimeout(PenstockError, TimeoutError):
    """A workflow had not ended in the time given to wait; `why` says what its jobs wait for."""

    def __init__(self, workflow_id: str, state: str, seconds: float, why: str = "") -> None:
        self.workflow_id = workflow_id
        self.state = state
        self.seconds = seconds
        self.why = why
        told = f" {why}" if why else ""
        super().__init__(
            f"Workflow {workflow_id} is still {state} after a wait of {seconds:g} s.{told} "
            "It goes on regardless: wait again, or cancel it."
        )


class JobFailed(PenstockError):
    """The job waited for has failed; its last error is here as text, never rebuilt."""

    def __init__(
        self,
        job_id: str,
        reason: str | None = None,
        error_type: str | None = None,
        error_message: str | None = None,
    ) -> None:
        self.job_id = job_id
        self.reason = reason
        self.error_type = error_type
        self.error_message = error_message
        why = f" ({reason})" if reason else ""
        said = f": {error_message}".rstrip(" :.") if error_message else ""
        last = f" with {error_type}{said}" if error_type else ""
        super().__init__(
            f"Job {job_id} failed{why}{last}. Its attempts are in job.errors; "
            "once the cause is gone it can be retried under the same id."
        )


class JobCancelled(PenstockError):
    def __init__(self, job_id: str, reason: str | None = None) -> None:
        self.job_id = job_id
        self.reason = reason
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"Job {job_id} was cancelled{why} and has no result. Retry it if it should run."
        )


# Workers


class LeaseLost(PenstockError):
    def __init__(self, lease: str) -> None:
        self.lease = lease
        super().__init__(
            f"The lease {lease} has expired or was taken away: the jobs under it belong to other "
            "workers now. This worker stops them and takes a new lease."
        )


class StaleAttempt(PenstockError):
    """The fence refused: this attempt no longer owns its job."""

    def __init__(self, job_id: str, attempt: int) -> None:
        self.job_id = job_id
        self.attempt = attempt
        super().__init__(
            f"Attempt {attempt} of job {job_id} no longer owns it: the job was cancelled, or its "
            "lease ran out and a newer attempt has it. Roll back and return."
        )


class ResourceMissing(PenstockError):
    def __init__(self, resource: str, task: str | None = None) -> None:
        self.resource = resource
        self.task = task
        who = f"The task {task!r} needs" if task else "A handler asked for"
        super().__init__(
            f"{who} the resource {resource}, which this worker did not open. "
            "Add it to the worker's resources and to the task's."
        )


class DuplicateStep(PenstockError):
    """Two steps of one attempt want one name."""

    def __init__(self, name: str, kind: str = "step") -> None:
        self.name = name
        super().__init__(
            f"This attempt has asked for the {kind} {name!r} already: the second would get the "
            f"result of the first. Give each a name of its own, in a loop f'{name} {{n}}'."
        )


class StepDoesNotFit(PenstockError):
    """A step's result does not fit what its function says it returns."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(
            f"The result of the step {name!r} does not fit the return annotation of its function: "
            f"{problem}. Correct the annotation; or, if a result from before no longer fits, give "
            "the step a new name, and it is run again."
        )


class TooManySteps(PenstockError):
    """A job keeps more steps, or longer results, than an attempt can read at its beginning."""

    def __init__(self, steps: int, size: int, most: int, limit: int) -> None:
        self.steps = steps
        self.size = size
        super().__init__(
            f"The job would keep {steps:,} steps with {size:,} characters of results; the limits "
            f"are {most:,} and {limit:,}. Do the work in several jobs, or keep results elsewhere "
            "and return references to them."
        )


class EventTimeout(PenstockError, TimeoutError):
    """An event that a job waited for was not sent in time."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"The event {name!r} was not sent in the time that the job waited for it. The job's "
            "later attempts get the same answer: catch EventTimeout, and do what is to be done; or "
            "retry the job by hand, and it waits anew."
        )


class PollTimeout(PenstockError, TimeoutError):
    """An operation was polled for as often, or for as long, as allowed, and is not over."""

    def __init__(self, name: str, polls: int) -> None:
        self.name = name
        self.polls = polls
        super().__init__(
            f"The poll {name!r} has no answer after {polls:,} {'try' if polls == 1 else 'tries'}, "
            "and neither its time nor its number allows another. Look at the operation itself; "
            "retried by hand the job polls it anew."
        )


class BudgetTooSmall(PenstockError):
    """More units were asked for than the budget ever holds: no wait would help."""

    def __init__(self, key: str, units: float, burst: float) -> None:
        self.key = key
        self.units = units
        self.burst = burst
        super().__init__(
            f"The budget {key!r} never holds {units:g} units: its burst is {burst:g}. "
            f"Raise it with `penstock limits set {shlex.quote(key)} --burst ...`, or ask for less "
            "at once."
        )


class UnknownBudget(PenstockError):
    """No limit with a rate is set for this key."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"There is no budget for {key!r}. Set one first: "
            f"`penstock limits set {shlex.quote(key)} --rate ... --burst ...`."
        )


class RequestRefused(PenstockError):
    """A service has refused a request; `fields` are those that do not fit, each with why."""

    def __init__(
        self, status: int, kind: str, detail: str, fields: dict[str, str] | None = None
    ) -> None:
        self.status = status
        self.kind = kind
        self.detail = detail
        self.fields = fields or {}
        told = f": {detail.rstrip('.')}" if detail else ""
        super().__init__(f"The service has refused the request with {status}{told}.")


class ServiceUnreachable(PenstockError):
    """A service did not answer; `is_sent` says that it may have done what was asked."""

    def __init__(self, problem: str, *, is_sent: bool) -> None:
        self.problem = problem
        self.is_sent = is_sent
        remedy = (
            "What was asked may have been done: look before you ask again, or enqueue with an "
            "idempotency_key, then asking again is safe."
            if is_sent
            else "Nothing was done: look at its address, and whether it runs."
        )
        super().__init__(f"The service did not answer ({problem}). {remedy}")


# The database


class DatabaseError(PenstockError):
    """Postgres did not do what was asked. The message names host and database and says what to do.

    Its cause is the driver's error; `sqlstate` is Postgres's code for it, None where it sent none.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        self.sqlstate = sqlstate
        super().__init__(message)


class DatabaseLost(DatabaseError):
    """Postgres cannot be reached, the connection broke, or no answer came in time.

    `is_sent` says that the statement may have been carried out all the same.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None, is_sent: bool = True) -> None:
        self.is_sent = is_sent
        super().__init__(message, sqlstate=sqlstate)


class DatabaseExhausted(DatabaseError):
    """The server has run out of disk, memory, connections or locks. Nothing was done."""


class DatabaseReadOnly(DatabaseError):
    """The server takes no writes: it is a standby, or set to read only. Nothing was done."""


class DatabaseBusy(DatabaseError):
    """A statement met a timeout, a lock or a deadlock. Nothing was done: try again."""


class DatabaseDenied(DatabaseError):
    """The server does not let this role in, or has no database of this name."""


# For handlers to raise


class Retryable(PenstockError):
    """This attempt failed and another may succeed.

        raise Retryable("the model API is busy", after=asked_wait(response.headers))

    `after` is in seconds; without it the task's retry policy says how long to wait.
    """

    def __init__(self, message: str, *, after: float | timedelta | None = None) -> None:
        self.after = after.total_seconds() if isinstance(after, timedelta) else after
        super().__init__(message)


class NotRetryable(PenstockError):
    """Trying again is pointless: the job fails now, whatever attempts it has left."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= VALUE_SHOWN else text[: VALUE_SHOWN - 1] + "…"


def _migrate(schema: str) -> str:
    """The command that makes the tables there; without the option it makes those of `penstock`."""
    where = "" if schema == "penstock" else f" --schema {shlex.quote(schema)}"
    return f"`penstock migrate{where}`"


def _nearest(name: str, known: list[str]) -> str:
    if near := get_close_matches(name, known, n=3):
        return f"Did you mean {' or '.join(map(repr, near))}?"
    if not known:
        return "This app has no tasks: register some with app.task or app.include."
    more = ", …" if len(known) > NAMES_SHOWN else ""
    return f"Registered are {', '.join(known[:NAMES_SHOWN])}{more}."
