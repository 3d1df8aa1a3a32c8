"""Compares the jobs that were enqueued with what a test expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from penstock.app.client import Client
from penstock.errors import ArgumentsDoNotFit
from penstock.job import BLOCKED, READY, SCHEDULED, Job, State
from penstock.tasks import Task

MAX_JOBS_SHOWN = 10
MAX_VALUE_CHARS = 60
# Times are microseconds in the database, and floats on their way there.
TOLERANCE = timedelta(milliseconds=1)


class Traits(TypedDict, total=False):
    """What a test can expect of a job besides its task and arguments, by the names of options."""

    queue: str
    priority: int
    tenant: str
    subject: str | None
    requested_by: str | None
    tags: Iterable[str]
    meta: Mapping[str, Any]
    max_attempts: int
    timeout: float | timedelta | None
    delay: float | timedelta
    run_at: datetime
    deadline: datetime | None


class Expectation:
    """The expected task, arguments and traits of a job. A value that is left out may be anything.

    Values are compared as `expected == actual`, so objects with an `==` of their own work, such as
    `unittest.mock.ANY`. Arguments are compared in the types that the handler would get.
    """

    def __init__(
        self, task: Task[..., Any] | str | None, args: Mapping[str, Any], traits: Traits
    ) -> None:
        self._task = task
        self._name = task.name if isinstance(task, Task) else task
        self._args = _check_args(task, args)
        self._traits = {name: _comparable(name, value) for name, value in traits.items()}

    def differences(self, job: Job) -> list[str]:
        """Return the differences between the job and the expectation; [] if it matches."""
        if self._name is not None and job.task != self._name:
            return [f"its task is {job.task}"]
        arguments = self._arguments(job)
        differences = [
            *_compare(self._args, arguments),
            *_compare(self._traits, {name: _trait(job, name) for name in self._traits}),
        ]
        return [f"{name} is {value}" for name, value in differences]

    def distance(self, job: Job) -> float:
        """Return the number of differences; infinity for a job of another task."""
        if self._name is not None and job.task != self._name:
            return float("inf")
        return len(self.differences(job))

    def _arguments(self, job: Job) -> Mapping[str, Any]:
        if isinstance(self._task, Task):
            with suppress(ArgumentsDoNotFit):
                positional, named = self._task.decode(job.args, job.args_version)
                names = self._task.arguments.parameters.positional
                return dict(zip(names, positional, strict=True)) | named
        return job.args

    def __str__(self) -> str:
        values = [f"{name}={value!r}" for name, value in {**self._args, **self._traits}.items()]
        task = f" of {self._name}" if self._name else ""
        return f"job{task}{' with ' if values else ''}{', '.join(values)}"


def list_nearest(jobs: Sequence[Job], expectation: Expectation) -> str:
    """Return a text with a line for each job. Jobs with the fewest differences come first."""
    if not jobs:
        return "No job waits."
    nearest = sorted(jobs, key=lambda job: (expectation.distance(job), int(job.id)))
    lines = [_line(job, expectation.differences(job)) for job in nearest[:MAX_JOBS_SHOWN]]
    if len(jobs) > MAX_JOBS_SHOWN:
        lines.append(f"… and {len(jobs) - MAX_JOBS_SHOWN} more")
    word = "job waits" if len(jobs) == 1 else "jobs wait"
    return "\n  ".join([f"{len(jobs)} {word}, nearest first:", *lines])


def _line(job: Job, differences: list[str]) -> str:
    args = ", ".join(f"{name}={_shown(value)}" for name, value in job.args.items())
    reasons = f" – {', '.join(differences)}" if differences else ""
    return f"{job.id}: {job.task}({args}), {job.state} in {job.queue}{reasons}"


def _compare(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in expected.items():
        if name not in actual:
            yield name, "not given"
        elif value != actual[name]:
            yield name, _shown(actual[name])


def _check_args(task: Task[..., Any] | str | None, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the expected arguments.

    Raises TypeError for an argument that the task does not have, because no job could match it.
    """
    if not (task is None or isinstance(task, Task | str)):
        raise TypeError(f"Look for jobs by their task or its name, not by {task!r}.")
    if not isinstance(args, Mapping):
        raise TypeError(
            f'Look for arguments by their names, such as {{"order": 42}}, not by {args!r}.'
        )
    if isinstance(task, Task) and task.arguments.parameters.extra is None:
        names = task.arguments.parameters.names
        if unknown := sorted(args.keys() - names):
            known = ", ".join(sorted(names)) or "none"
            raise TypeError(
                f"The task {task.name!r} has no parameter {unknown[0]!r}; its parameters: {known}."
            )
    return args


class _Near:
    """A duration that compares equal to durations which differ by up to a millisecond."""

    def __init__(self, span: timedelta) -> None:
        self._span = span

    def __eq__(self, other: object) -> bool:
        return isinstance(other, timedelta) and abs(other - self._span) <= TOLERANCE

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._span)


def _comparable(name: str, value: Any) -> Any:
    """Convert an expected trait into the form in which `_trait` returns the trait of a job."""
    match name, value:
        case "delay", int() | float():
            return _Near(timedelta(seconds=value))
        case "delay", timedelta():
            return _Near(value)
        case "timeout", timedelta():
            return value.total_seconds()
        case "tags", list() | tuple() | set() | frozenset():
            return set(value)
        case _ if name not in Traits.__optional_keys__:
            known = ", ".join(sorted(Traits.__optional_keys__))
            raise TypeError(f"A job has no {name!r} to compare; it has {known}.")
    return value


def _trait(job: Job, name: str) -> Any:
    getter = TRAITS.get(name)
    return getter(job) if getter else getattr(job, name)


TRAITS: dict[str, Callable[[Job], Any]] = {
    "delay": lambda job: (job.run_at or job.created_at) - job.created_at,
    "tags": lambda job: set(job.tags),
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"


WAITING: tuple[State, ...] = (SCHEDULED, READY, BLOCKED)
MAX_JOBS_PER_PAGE = 1000

AnyTask = Task[..., Any]


async def enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    **traits: Unpack[Traits],
) -> list[Job]:
    """Return the waiting jobs that match the task, arguments and options, oldest first.

    [job] = await enqueued(app, send_invoice, {"order": 42}, queue="mail")
    """
    expectation = Expectation(task, {} if args is None else args, traits)
    return [job for job in await _waiting(client) if not expectation.differences(job)]


async def assert_enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    *,
    count: int | None = None,
    **traits: Unpack[Traits],
) -> list[Job]:
    """Fail unless a matching job waits, or exactly `count` of them. Return the matching jobs.

        await assert_enqueued(app, send_invoice, {"order": 42}, delay=timedelta(hours=1))

    Arguments and options that you leave out may be anything. Pass `app.inside(connection)` instead
    of the app to see the jobs that the connection's open transaction has enqueued.
    """
    __tracebackhide__ = True
    expectation = Expectation(task, {} if args is None else args, traits)
    waiting = await _waiting(client)
    jobs = [job for job in waiting if not expectation.differences(job)]
    if not jobs if count is None else len(jobs) != count:
        expected = "Expected a" if count is None else f"Expected {count} times a"
        nearest = list_nearest(waiting, expectation)
        raise AssertionError(f"{expected} {expectation}; found {len(jobs) or 'none'}. {nearest}")
    return jobs


async def assert_nothing_enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    **traits: Unpack[Traits],
) -> None:
    """Fail if a matching job waits. Without a task, arguments and options, every job matches.

    await assert_nothing_enqueued(app)
    """
    __tracebackhide__ = True
    expectation = Expectation(task, {} if args is None else args, traits)
    jobs = [job for job in await _waiting(client) if not expectation.differences(job)]
    if jobs:
        raise AssertionError(f"Expected no {expectation}. {list_nearest(jobs, expectation)}")


async def _waiting(client: Client) -> list[Job]:
    jobs: list[Job] = []
    after: str | None = None
    while True:
        page = await client.list(state=WAITING, after=after, limit=MAX_JOBS_PER_PAGE)
        jobs.extend(page.jobs)
        if page.after is None:
            return jobs[::-1]
        after = page.after
