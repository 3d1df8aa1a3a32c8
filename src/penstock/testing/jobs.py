"""Look at what was enqueued, and compare it with what a test expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from penstock.app.client import Client
from penstock.errors import ArgumentsDoNotFit
from penstock.job import BLOCKED, READY, SCHEDULED, Job, State
from penstock.tasks import Task

SHOWN = 10
VALUE_SHOWN = 60
# Microseconds in the database, floats on the way there.
CLOSE = timedelta(milliseconds=1)


class Traits(TypedDict, total=False):
    """What can be expected of a job beside its task and arguments, by the names of the options."""

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
    """A task, some of its arguments, some traits: what is not named may be anything.

    Values are compared as `expected == actual`, so anything with an `==` of its own will do, such
    as `unittest.mock.ANY`. Arguments are compared as the handler would get them.
    """

    def __init__(
        self, task: Task[..., Any] | str | None, args: Mapping[str, Any], traits: Traits
    ) -> None:
        self._task = task
        self._name = task.name if isinstance(task, Task) else task
        self._args = _checked(task, args)
        self._traits = {name: _plain(name, value) for name, value in traits.items()}

    def differences(self, job: Job) -> list[str]:
        """In what the job is not as expected: nothing means that it is meant."""
        if self._name is not None and job.task != self._name:
            return [f"its task is {job.task}"]
        given = self._arguments(job)
        wrong = [
            *_unlike(self._args, given),
            *_unlike(self._traits, {name: _trait(job, name) for name in self._traits}),
        ]
        return [f"{name} is {value}" for name, value in wrong]

    def distance(self, job: Job) -> float:
        """How far the job is from what is expected; 0 means that it is meant."""
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
        wanted = [f"{name}={value!r}" for name, value in {**self._args, **self._traits}.items()]
        of = f" of {self._name}" if self._name else ""
        return f"job{of}{' with ' if wanted else ''}{', '.join(wanted)}"


def listing(jobs: Sequence[Job], expectation: Expectation) -> str:
    """Jobs as lines, those that are nearest to what was expected first."""
    if not jobs:
        return "No job waits."
    nearest = sorted(jobs, key=lambda job: (expectation.distance(job), int(job.id)))
    lines = [_line(job, expectation.differences(job)) for job in nearest[:SHOWN]]
    if len(jobs) > SHOWN:
        lines.append(f"… and {len(jobs) - SHOWN} more")
    word = "job waits" if len(jobs) == 1 else "jobs wait"
    return "\n  ".join([f"{len(jobs)} {word}, nearest first:", *lines])


def _line(job: Job, differences: list[str]) -> str:
    args = ", ".join(f"{name}={_shown(value)}" for name, value in job.args.items())
    why = f" – {', '.join(differences)}" if differences else ""
    return f"{job.id}: {job.task}({args}), {job.state} in {job.queue}{why}"


def _unlike(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in expected.items():
        if name not in actual:
            yield name, "not given"
        elif value != actual[name]:
            yield name, _shown(actual[name])


def _checked(task: Task[..., Any] | str | None, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Names that the task does not have could never be found: that is a slip of the test."""
    if not (task is None or isinstance(task, Task | str)):
        raise TypeError(f"Jobs are looked for by their task or its name, not by {task!r}.")
    if not isinstance(args, Mapping):
        raise TypeError(
            f'Arguments are looked for by their names, such as {{"order": 42}}, not by {args!r}.'
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
    """A span of time that differs by less than a millisecond."""

    def __init__(self, span: timedelta) -> None:
        self._span = span

    def __eq__(self, other: object) -> bool:
        return isinstance(other, timedelta) and abs(other - self._span) <= CLOSE

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._span)


def _plain(name: str, value: Any) -> Any:
    """A trait as it can be compared with what `_trait` finds."""
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
            raise TypeError(f"A job cannot be asked for {name!r}; it can for {known}.")
    return value


def _trait(job: Job, name: str) -> Any:
    found = TRAITS.get(name)
    return found(job) if found else getattr(job, name)


TRAITS: dict[str, Callable[[Job], Any]] = {
    "delay": lambda job: (job.run_at or job.created_at) - job.created_at,
    "tags": lambda job: set(job.tags),
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_SHOWN else text[: VALUE_SHOWN - 1] + "…"


WAITING: tuple[State, ...] = (SCHEDULED, READY, BLOCKED)
PAGE = 1000

AnyTask = Task[..., Any]


async def enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    **traits: Unpack[Traits],
) -> list[Job]:
    """The jobs that wait to be run, oldest first; of a task, with arguments, with traits.

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
    """Fail unless such jobs wait: at least one, or as many as `count`. The jobs.

        await assert_enqueued(app, send_invoice, {"order": 42}, delay=timedelta(hours=1))

    What is not named may be anything. `app.inside(connection)` in place of the app sees what the
    connection's open transaction has enqueued.
    """
    __tracebackhide__ = True
    expectation = Expectation(task, {} if args is None else args, traits)
    waiting = await _waiting(client)
    found = [job for job in waiting if not expectation.differences(job)]
    if not found if count is None else len(found) != count:
        wanted = "Expected a" if count is None else f"Expected {count} times a"
        raise AssertionError(
            f"{wanted} {expectation}; found {len(found) or 'none'}. {listing(waiting, expectation)}"
        )
    return found


async def assert_nothing_enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    **traits: Unpack[Traits],
) -> None:
    """Fail if such jobs wait; without a task and the rest, if any do.

    await assert_nothing_enqueued(app)
    """
    __tracebackhide__ = True
    expectation = Expectation(task, {} if args is None else args, traits)
    found = [job for job in await _waiting(client) if not expectation.differences(job)]
    if found:
        raise AssertionError(f"Expected no {expectation}. {listing(found, expectation)}")


async def _waiting(client: Client) -> list[Job]:
    jobs: list[Job] = []
    after: str | None = None
    while True:
        page = await client.list(state=WAITING, after=after, limit=PAGE)
        jobs.extend(page.jobs)
        if page.after is None:
            return jobs[::-1]
        after = page.after
