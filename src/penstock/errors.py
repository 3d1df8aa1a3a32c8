"""The exceptions that Penstock raises.

PenstockError
├── ConfigError              a setting has a value that is not allowed
│   ├── BadArgument          an argument of a call has a value that is not allowed
│   └── Misuse               the code cannot work as it is written, such as a lambda without a name
├── EmbeddedError            the embedded Postgres could not be started or used
├── SchemaError              the database's schema is not the one that this version needs
│   ├── SchemaMissing        the schema has no tables of Penstock
│   ├── SchemaRenamed        the schema was renamed, and its functions use the old name
│   ├── SchemaTooOld         the schema lacks migrations
│   └── SchemaTooNew         a newer version of Penstock has migrated the schema
├── NotAllowed               the database role lacks a right that the call needs
├── RolesUnfit               the roles for row level security are missing, or have too many rights
├── TenantUnguarded          a key for one tenant needs row level security, which is off
├── NameTaken                a key or a person of this name exists already
├── KeyNotFound              no API key in use has this id or name
├── PersonNotFound           no person has this name
├── LastAdmin                this key or person is the last that can give others access
├── DuplicateTask            two tasks have the same name
├── UnknownTask              no task is registered under this name
├── PayloadRefused           a value cannot be stored as JSON in Postgres
│   └── PayloadTooLarge      a value takes more bytes than the limit
├── ArgumentsDoNotFit        a job's stored arguments no longer fit the task's parameters
├── IdempotencyMismatch      an idempotency key was used before, with other arguments
├── UniqueConflict           another job holds the unique key, and on_conflict="raise" was asked for
├── BatchNotFound            no batch has this id
├── BatchClosed              the batch is closed, so no job can be added to it
├── BatchTimeout             a wait for a batch took too long (a TimeoutError)
├── WorkflowNotFound         no workflow has this id
├── WorkflowRefused          jobs cannot wait for each other like this
│   ├── WorkflowCycle        jobs would wait for each other in a circle
│   ├── ParentNotFound       the workflow has no such job to wait for
│   ├── ChildStarted         the job that should wait has started already
│   └── StepUnclear          no step of the workflow has this name, or several have it
├── TenantMismatch           a call for one tenant was made as another tenant
├── TenantMissing            row level security is on, and the call has no tenant
├── JobNotFound              no job has this id
├── ScheduleNotFound         no schedule has this name
├── JobConflict              the job's state does not allow the call, such as retry of a running job
├── WaitTimeout              a wait for a job took too long (a TimeoutError)
├── WorkflowTimeout          a wait for a workflow took too long (a TimeoutError)
├── JobFailed                the job that was waited for has failed
├── JobCancelled             the job that was waited for was cancelled
├── StartTimeout             a worker got no lease in time (a TimeoutError)
├── LeaseLost                the worker's lease has expired or was taken away
├── StaleAttempt             the attempt no longer owns its job, so its write was refused
├── ResourceMissing          a task needs a resource that this worker did not open
├── DuplicateStep            two steps of one attempt have the same name
├── StepDoesNotFit           a step's result does not fit the return type of its function
├── TooManySteps             a job keeps more steps, or longer results, than an attempt can read
├── EventTimeout             an event that a job waited for was not sent in time (a TimeoutError)
├── PollTimeout              an outside operation was not over after all polls (a TimeoutError)
├── BudgetTooSmall           a budget never holds as many units as were asked for
├── UnknownBudget            no limit with a rate is set for this key
├── RequestRefused           the HTTP API refused a request for a reason that is not listed here
├── ServiceUnreachable       the HTTP API did not answer
├── DatabaseError            Postgres did not do what was asked; the message says what to do
│   ├── DatabaseLost         it cannot be reached, the connection broke, or no answer came in time
│   ├── DatabaseExhausted    it has run out of disk, memory, connections or locks
│   ├── DatabaseReadOnly     it takes no writes: a standby, or a failover is under way
│   ├── DatabaseBusy         a statement met a timeout, a lock or a deadlock: try again
│   └── DatabaseDenied       it does not let the role in, or has no such database
├── Retryable                for handlers to raise: try again, perhaps after a while
└── NotRetryable             for handlers to raise: another try would be pointless
"""

import shlex
from collections.abc import Iterable
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

SOME_DATABASE = "The database"
MAX_VALUE_CHARS = 80
MAX_NAMES_SHOWN = 10


class PenstockError(Exception):
    """The base class of all exceptions that Penstock raises."""


# Settings and installation


class ConfigError(PenstockError):
    """A setting has a value that is not allowed. `allowed` describes the values that are."""

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        self.setting = setting
        self.value = value
        self.allowed = allowed
        super().__init__(f"The setting {setting} is {_shown(value)}; it must be {allowed}.")


class BadArgument(ConfigError):
    """An argument of a call has a value that is not allowed."""

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        super().__init__(setting, value, allowed)
        self.args = (f"The argument {setting} is {_shown(value)}; it must be {allowed}.",)


class Misuse(ConfigError):
    """The code cannot work as it is written. The message says why, and what to write instead."""

    def __init__(self, message: str, setting: str = "task") -> None:
        super().__init__(setting, None, message)
        self.args = (message,)


class EmbeddedError(PenstockError):
    """The embedded Postgres could not be started or used. The message says why."""


class SchemaError(PenstockError):
    """The database's schema is not the one that this version of Penstock needs."""

    def __init__(self, schema: str, problem: str, place: str) -> None:
        self.schema = schema
        self._problem = problem
        super().__init__(f"{place} {problem}")

    @property
    def anywhere(self) -> str:
        """The message without the host and the name of the database, for callers over HTTP."""
        return f"{SOME_DATABASE} {self._problem}"


class SchemaMissing(SchemaError):
    """The schema has no tables of Penstock: run `penstock migrate`."""

    def __init__(self, schema: str, *, place: str = SOME_DATABASE) -> None:
        problem = f"has no Penstock tables in the schema {schema!r}. Run {_migrate(schema)} first."
        super().__init__(schema, problem, place)


class SchemaTooOld(SchemaError):
    """The schema lacks migrations that this version needs: run `penstock migrate`."""

    def __init__(self, schema: str, found: int, needed: int, *, place: str = SOME_DATABASE) -> None:
        self.found = found
        self.needed = needed
        problem = (
            f"has the schema {schema!r} at migration {found}, but this version of Penstock needs "
            f"{needed}. Run {_migrate(schema)}."
        )
        super().__init__(schema, problem, place)


class SchemaTooNew(SchemaError):
    """A newer version of Penstock has migrated the schema: upgrade Penstock here."""

    def __init__(self, schema: str, found: int, newest: int, *, place: str = SOME_DATABASE) -> None:
        self.found = found
        self.newest = newest
        problem = (
            f"has the schema {schema!r} at migration {found}, but this version of Penstock knows "
            f"only up to {newest}. Upgrade Penstock here."
        )
        super().__init__(schema, problem, place)


class SchemaRenamed(SchemaError):
    """The schema was renamed, and its functions use the old name: run `penstock migrate`."""

    def __init__(self, schema: str, former: str, *, place: str = SOME_DATABASE) -> None:
        self.former = former
        problem = (
            f"has the schema {schema!r}, which was renamed: its functions still look for their "
            f"tables in {former}. Run {_migrate(schema)}, which mends them."
        )
        super().__init__(schema, problem, place)


class NotAllowed(PenstockError):
    """The database role lacks a right that the call needs. The cause is the driver's error.

    `role` is None if it could not be looked up, such as inside a transaction of your own.
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
    """The roles that row level security needs do not exist, or can see the rows of all tenants.

    `remedy` is the SQL that an administrator should run.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(
            f"{problem} Let an administrator of the server run this, then try again: `{remedy}`."
        )


class TenantUnguarded(PenstockError):
    """Row level security is off, so a key for one tenant could not be confined to that tenant."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(
            f"A key for the tenant {tenant!r} alone needs row level security, which is off: run "
            "`penstock migrate --rls` first."
        )


# Keys and people


class NameTaken(PenstockError):
    """A key or a person of this name exists already."""

    def __init__(self, kind: str, name: str, remedy: str) -> None:
        self.name = name
        super().__init__(
            f"There is already a {kind} with the name {name!r}. Use another name, or {remedy}."
        )


class KeyNotFound(PenstockError):
    """No API key in use has this id or name."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"There is no key {key!r} in use: name it by its id or its name, as "
            "`penstock keys list --all` shows them."
        )


class PersonNotFound(PenstockError):
    """No person has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is no person {name!r}. `penstock people list` shows all people.")


class LastAdmin(PenstockError):
    """This key or person is the last that can give others access over HTTP."""

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(
            f"The {who} is the last one with the right `admin`. Give the right to another key or "
            "person first. Only `penstock keys` and `penstock people`, which use the database "
            "directly, can take it from the last one."
        )


# Tasks and their arguments


class DuplicateTask(PenstockError):
    """Two different tasks have the same name."""

    def __init__(self, name: str, first: str, second: str) -> None:
        self.name = name
        self.first = first
        self.second = second
        super().__init__(
            f"Two tasks have the name {name!r}: the one at {first} and the one at {second}. "
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
    """A value cannot be stored as JSON in Postgres.

    `field` is the path to the value, such as `profile.name`.
    """

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"The field {field} cannot be stored: {problem}. {remedy}")


class PayloadTooLarge(PayloadRefused):
    """A value takes more bytes as JSON than the limit: store it elsewhere, and pass a reference."""

    def __init__(self, field: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            field,
            f"it takes {size:,} bytes as JSON and the limit is {limit:,}",
            "Store the content elsewhere and pass a reference to it, such as a key or a path.",
        )


class ArgumentsDoNotFit(PenstockError):
    """A job's stored arguments no longer fit the task's parameters.

    Deploy code that knows these arguments, or raise `args_version` and add an upcaster.
    """

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
    """An idempotency key was used before, with another task or other arguments."""

    def __init__(self, key: str, job_id: str) -> None:
        self.key = key
        self.job_id = job_id
        super().__init__(
            f"The idempotency key {key!r} belongs to job {job_id}, which was enqueued with "
            "another task or other arguments. Use a new key for a new request."
        )


class UniqueConflict(PenstockError):
    """Another job holds the unique key, or two jobs of one call have the same key.

    This is raised only for `Unique(on_conflict="raise")`. `job_id` is None for two jobs of one
    call.
    """

    def __init__(self, key: str, job_id: str | None) -> None:
        self.key = key
        self.job_id = job_id
        problem, remedy = "is given to two jobs of one call", "Leave one of them out"
        if job_id:
            problem, remedy = f"is held by job {job_id}", "Wait for that job"
        super().__init__(
            f"The unique key {key!r} {problem}. {remedy}, or choose another on_conflict: "
            "skip, replace or supersede."
        )


class BatchNotFound(PenstockError):
    """No batch has this id, or it was removed."""

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(
            f"There is no batch {batch_id}. It may have finished long ago and been removed, or "
            "the id is from another database or tenant."
        )


class BatchClosed(PenstockError):
    """The batch is closed, so no job can be added to it."""

    def __init__(self, batch_id: str) -> None:
        self.batch_id = batch_id
        super().__init__(
            f"Batch {batch_id} is closed: no job can be added to it any more. Add jobs before "
            "closing it, or begin another batch."
        )


class BatchTimeout(PenstockError, TimeoutError):
    """A wait for a batch took too long. The batch goes on.

    `why` says what its jobs wait for, if that is known.
    """

    def __init__(
        self, batch_id: str, state: str, pending: int, seconds: float, why: str = ""
    ) -> None:
        self.batch_id = batch_id
        self.state = state
        self.pending = pending
        self.seconds = seconds
        self.why = why
        left = f"{pending:,} job{'' if pending == 1 else 's'} to go"
        condition = "still open" if state == "open" else f"still running, with {left},"
        remedy = (
            "Close it: an open batch never finishes."
            if state == "open"
            else "It goes on regardless."
        )
        reason = f" {why}" if why else ""
        super().__init__(
            f"Batch {batch_id} is {condition} after a wait of {seconds:g} s.{reason} {remedy}"
        )


class WorkflowNotFound(PenstockError):
    """No workflow has this id, or its history has expired."""

    def __init__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"There is no workflow {workflow_id}. Its history may have expired, or the id is from "
            "another database or tenant."
        )


class WorkflowRefused(PenstockError):
    """Jobs cannot wait for each other like this."""


class WorkflowCycle(WorkflowRefused):
    """Jobs would wait for each other in a circle. `steps` names them in order."""

    def __init__(self, *steps: str) -> None:
        self.steps = steps
        super().__init__(
            f"These steps would wait for each other in a circle: {' → '.join(steps)}. Remove one "
            "of these dependencies."
        )


class ParentNotFound(WorkflowRefused):
    """The workflow has no such job to wait for."""

    def __init__(self, job_id: str, workflow_id: str) -> None:
        self.job_id = job_id
        self.workflow_id = workflow_id
        super().__init__(
            f"There is no job {job_id} to wait for in workflow {workflow_id}. It was deleted, its "
            "history has expired, or it belongs to another workflow."
        )


class ChildStarted(WorkflowRefused):
    """The job that should wait for another has started already."""

    def __init__(self, job_id: str, workflow_id: str) -> None:
        self.job_id = job_id
        self.workflow_id = workflow_id
        super().__init__(
            f"Job {job_id} cannot be made to wait: it has started, or is not of workflow "
            f"{workflow_id}. Put new jobs before one that has not started."
        )


class StepUnclear(WorkflowRefused):
    """No step of the workflow has this name, or several have it.

    `number` is how many steps have the name. Pass the job instead of its step's name.
    """

    def __init__(self, name: str, workflow_id: str, number: int) -> None:
        self.name = name
        self.workflow_id = workflow_id
        self.number = number
        has = f"{number:,} steps" if number else "no step"
        super().__init__(
            f"Workflow {workflow_id} has {has} with the name {name!r}. Pass the job instead of its "
            "step's name, as start_workflow or enqueue returned it."
        )


class TenantMismatch(PenstockError):
    """A call is for one tenant, but its client or its transaction is set to another."""

    def __init__(self, tenant: str, bound_to: str) -> None:
        self.tenant = tenant
        self.bound_to = bound_to
        super().__init__(
            f"The call is for tenant {tenant!r}, but it is made as tenant {bound_to!r}. Leave the "
            f"tenant out, or make the call with app.for_tenant({tenant!r})."
        )


class TenantMissing(PenstockError):
    """Row level security is on, and the call has no tenant.

    Make the call with `app.for_tenant(…)`, or set `penstock.tenant` in your transaction. `tenant`
    is the tenant that the job got with `task.options(tenant=…)`. This option alone does not
    suffice.
    """

    def __init__(self, tenant: str | None = None) -> None:
        self.tenant = tenant
        if tenant:
            problem = (
                f"The job names the tenant {tenant!r}, but row level security is on, and no "
                f"tenant is set in the transaction. Use app.for_tenant({tenant!r})"
            )
        else:
            problem = (
                "No tenant is set, but row level security is on, so each job must belong to a "
                "tenant. Use app.for_tenant(…)"
            )
        super().__init__(f"{problem}, or SET LOCAL penstock.tenant in your transaction.")


# Jobs


class JobNotFound(PenstockError):
    """No job has this id, or its history has expired."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"There is no job {job_id}. Its history may have expired, or the id is from "
            "another database or tenant."
        )


class ScheduleNotFound(PenstockError):
    """No schedule has this name. The message suggests similar ones."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        near = get_close_matches(name, known, n=3)
        meant = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        super().__init__(
            f"There is no schedule {name!r}. {meant}A schedule that code declares is stored when "
            "a worker starts, or by app.sync_schedules(). To create another one, use `penstock "
            "schedules set NAME --task TASK --cron CRON`, or app.set_schedule()."
        )


class JobConflict(PenstockError):
    """The job's state does not allow the call, such as `retry` of a running job.

    `remedy` is a whole sentence. Without a remedy, the message says to look at the job again.
    """

    def __init__(self, job_id: str, state: str, action: str, remedy: str | None = None) -> None:
        self.job_id = job_id
        self.state = state
        self.action = action
        remedy = remedy or "Look at its present state and decide again."
        super().__init__(f"Job {job_id} is {state}: it cannot be {action} now. {remedy}")


class StartTimeout(PenstockError, TimeoutError):
    """A worker got no lease within `Liveness(start_wait=…)` seconds."""

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
    """A wait for a job took too long. The job is kept, and goes on.

    `why` says what the job waits for, if that is known.
    """

    def __init__(self, job_id: str, state: str, seconds: float, why: str = "") -> None:
        self.job_id = job_id
        self.state = state
        self.seconds = seconds
        self.why = why
        reason = f" {why}" if why else ""
        super().__init__(
            f"Job {job_id} is still {state} after a wait of {seconds:g} s.{reason} "
            "The job is kept: wait again, or cancel it."
        )


class WorkflowTimeout(PenstockError, TimeoutError):
    """A wait for a workflow took too long. The workflow goes on.

    `why` says what its jobs wait for, if that is known.
    """

    def __init__(self, workflow_id: str, state: str, seconds: float, why: str = "") -> None:
        self.workflow_id = workflow_id
        self.state = state
        self.seconds = seconds
        self.why = why
        reason = f" {why}" if why else ""
        super().__init__(
            f"Workflow {workflow_id} is still {state} after a wait of {seconds:g} s.{reason} The "
            "workflow goes on: wait again, or cancel it."
        )


class JobFailed(PenstockError):
    """The job that was waited for has failed.

    `error_type` and `error_message` are the job's last error as text. The handler's exception is
    not rebuilt.
    """

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
        message = f": {error_message}".rstrip(" :.") if error_message else ""
        last = f" with {error_type}{message}" if error_type else ""
        super().__init__(
            f"Job {job_id} failed{why}{last}. Its attempts are in job.errors; "
            "once the cause is gone it can be retried under the same id."
        )


class JobCancelled(PenstockError):
    """The job that was waited for was cancelled, so it has no result."""

    def __init__(self, job_id: str, reason: str | None = None) -> None:
        self.job_id = job_id
        self.reason = reason
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"Job {job_id} was cancelled{why} and has no result. Retry it if it should run."
        )


# Workers


class LeaseLost(PenstockError):
    """The worker's lease has expired or was taken away. The worker takes a new one by itself."""

    def __init__(self, lease: str) -> None:
        self.lease = lease
        super().__init__(
            f"The lease {lease} has expired or was taken away: the jobs under it belong to other "
            "workers now. This worker stops them and takes a new lease."
        )


class StaleAttempt(PenstockError):
    """This attempt no longer owns its job, so its write was refused. Roll back, and return.

    The job was cancelled, or the worker's lease ran out and another attempt owns the job now.
    """

    def __init__(self, job_id: str, attempt: int) -> None:
        self.job_id = job_id
        self.attempt = attempt
        super().__init__(
            f"Attempt {attempt} of job {job_id} no longer owns it: the job was cancelled, or its "
            "lease ran out and a newer attempt has it. Roll back and return."
        )


class ResourceMissing(PenstockError):
    """A task needs a resource that this worker did not open."""

    def __init__(self, resource: str, task: str | None = None) -> None:
        self.resource = resource
        self.task = task
        who = f"The task {task!r} needs" if task else "A handler asked for"
        super().__init__(
            f"{who} the resource {resource}, which this worker did not open. "
            "Add it to the worker's resources and to the task's."
        )


class DuplicateStep(PenstockError):
    """Two steps of one attempt have the same name: the second would get the first one's result."""

    def __init__(self, name: str, kind: str = "step") -> None:
        self.name = name
        super().__init__(
            f"This attempt already has a {kind} with the name {name!r}, and a second one would "
            f"get the result of the first. Give each its own name, such as f'{name} {{n}}' in a "
            "loop."
        )


class StepDoesNotFit(PenstockError):
    """A step's result does not fit the return annotation of its function."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(
            f"The result of the step {name!r} does not fit the return annotation of its function: "
            f"{problem}. Correct the annotation. If an older result no longer fits, give the step "
            "a new name, so that it runs again."
        )


class TooManySteps(PenstockError):
    """A job keeps more steps, or longer results, than an attempt can read when it begins."""

    def __init__(self, steps: int, size: int, most: int, limit: int) -> None:
        self.steps = steps
        self.size = size
        super().__init__(
            f"The job would keep {steps:,} steps with {size:,} characters of results; the limits "
            f"are {most:,} and {limit:,}. Do the work in several jobs, or keep results elsewhere "
            "and return references to them."
        )


class EventTimeout(PenstockError, TimeoutError):
    """An event that a job waited for was not sent in time.

    Later attempts of the job get the same error, unless somebody retries the job by hand.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"The event {name!r} was not sent in the time that the job waited for it. Later "
            "attempts of the job get the same error: catch EventTimeout in the handler. If you "
            "retry the job by hand, it waits again."
        )


class PollTimeout(PenstockError, TimeoutError):
    """An outside operation was not over after `most` polls, or after `within` seconds."""

    def __init__(self, name: str, polls: int) -> None:
        self.name = name
        self.polls = polls
        super().__init__(
            f"The poll {name!r} has no answer after {polls:,} {'try' if polls == 1 else 'tries'}, "
            "and its time or its number of polls is used up. Look at the operation itself. If you "
            "retry the job by hand, it polls again."
        )


class BudgetTooSmall(PenstockError):
    """A handler asked for more units than the budget ever holds, so no wait would help."""

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
    """The HTTP API refused a request for a reason that has no error class of its own.

    `fields` says what is wrong with each field that does not fit.
    """

    def __init__(
        self, status: int, kind: str, detail: str, fields: dict[str, str] | None = None
    ) -> None:
        self.status = status
        self.kind = kind
        self.detail = detail
        self.fields = fields or {}
        reason = f": {detail.rstrip('.')}" if detail else ""
        super().__init__(f"The service has refused the request with {status}{reason}.")


class ServiceUnreachable(PenstockError):
    """The HTTP API did not answer. If `is_sent`, the request may have been carried out."""

    def __init__(self, problem: str, *, is_sent: bool) -> None:
        self.problem = problem
        self.is_sent = is_sent
        remedy = (
            "The request may have been carried out: check before you repeat it. An enqueue with an "
            "idempotency_key can be repeated safely."
            if is_sent
            else "Nothing was done. Check the address of the service, and whether it runs."
        )
        super().__init__(f"The service did not answer ({problem}). {remedy}")


# The database


class DatabaseError(PenstockError):
    """Postgres did not do what was asked. The message names the database and says what to do.

    The cause is the driver's error. `sqlstate` is Postgres's code for the error, or None if
    Postgres sent no code.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        self.sqlstate = sqlstate
        super().__init__(message)


class DatabaseLost(DatabaseError):
    """Postgres cannot be reached, the connection broke, or no answer came in time.

    If `is_sent`, the statement may have been carried out all the same.
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
    """Raise this in a handler if this attempt failed, but another attempt may succeed.

        raise Retryable("the model API is busy", after=asked_wait(response.headers))

    The job runs again after `after` seconds. Without `after`, the task's retry policy says when.
    """

    def __init__(self, message: str, *, after: float | timedelta | None = None) -> None:
        self.after = after.total_seconds() if isinstance(after, timedelta) else after
        super().__init__(message)


class NotRetryable(PenstockError):
    """Raise this in a handler if another attempt would be pointless. The job fails for good."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"


def _migrate(schema: str) -> str:
    """Return the command that migrates a schema. It needs no option for the schema `penstock`."""
    where = "" if schema == "penstock" else f" --schema {shlex.quote(schema)}"
    return f"`penstock migrate{where}`"


def _nearest(name: str, known: list[str]) -> str:
    if near := get_close_matches(name, known, n=3):
        return f"Did you mean {' or '.join(map(repr, near))}?"
    if not known:
        return "This app has no tasks: register some with app.task or app.include."
    more = ", …" if len(known) > MAX_NAMES_SHOWN else ""
    return f"Registered are {', '.join(known[:MAX_NAMES_SHOWN])}{more}."
