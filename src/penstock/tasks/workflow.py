"""Jobs that wait for each other, put together before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from msgspec import Struct

from penstock.errors import BadArgument, ConfigError, WorkflowCycle, WorkflowRefused
from penstock.job import COMPLETED, State
from penstock.tasks.options import CHECKS
from penstock.tasks.request import Request


class Parent(Struct, frozen=True, kw_only=True):
    """A job that another has waited for: its state and result, or its last error as text."""

    id: str
    step: str
    task: str
    state: State
    reason: str | None = None
    result: Any = None
    error: str | None = None

    @property
    def is_completed(self) -> bool:
        return self.state == COMPLETED


class Awaited(Struct, frozen=True, kw_only=True):
    """A job that another waits for, or has waited for; `missing` is one that was deleted."""

    id: str
    step: str | None
    task: str | None
    state: State | Literal["missing"]
    satisfied: bool
    on_failure: str

    def __str__(self) -> str:
        return f"{self.step or self.task or 'a job'} ({self.state}, job {self.id})"


def by_step(parents: Iterable[Parent]) -> dict[str, Parent]:
    """Parents by the names of their steps; of two with one name the later has its id with it."""
    named: dict[str, Parent] = {}
    for parent in parents:
        taken = parent.step in named
        named[f"{parent.step} #{parent.id}" if taken else parent.step] = parent
    return named


T_co = TypeVar("T_co", covariant=True)

OnFailure = Literal["cancel", "continue", "wait"]
_POLICIES: Final = get_args(OnFailure)
_step_name = CHECKS["requested_by"]


class Step(Generic[T_co]):
    """One job of a workflow that is being put together; T is what its handler returns."""

    __slots__ = ("flow", "name", "number", "request")

    def __init__(self, flow: Workflow, number: int, name: str, request: Request[T_co]) -> None:
        self.flow = flow
        self.number = number
        self.name = name
        self.request = request

    def __repr__(self) -> str:
        return f"<Step {self.name}>"


class HasId(Protocol):
    """A job that is in the database: what enqueue gave, or what get did."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Existing:
    """A job that is in the database, by its id."""

    id: str


# A text is the name of a step: of this workflow, or one that is in the database already.
Place: TypeAlias = Step[Any] | HasId | str
Places: TypeAlias = Place | Iterable[Place]
Stage: TypeAlias = Request[Any] | Sequence[Request[Any]]
# What an edge leads from or to: a step by its number, a job by its id, or one by its name.
Known: TypeAlias = int | Existing | str


class Workflow:
    """Jobs and what each of them waits for. It needs no database until it is started.

        flow = Workflow("import")
        fetch = flow.add(fetch_site.prepare(url), name="fetch")
        pages = [flow.add(parse.prepare(n), after=fetch) for n in range(10)]
        flow.add(index_all.prepare(), after=pages, on_failure="continue")
        started = await app.start_workflow(flow)

    `on_failure` says what becomes of a job if one that it waits for does not complete: `cancel`
    ends it and all that depends on it, `continue` runs it all the same, `wait` leaves it blocked
    until the other is run again and completes, or until somebody unblocks it.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        on_failure: OnFailure = "cancel",
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.name: str | None = CHECKS["requested_by"]("name", name)
        self.on_failure = _policy(on_failure)
        self.meta: str | None = CHECKS["meta"]("meta", meta)
        self.steps: list[Step[Any]] = []
        self.parents: list[dict[Known, OnFailure]] = []
        self.children: list[dict[Known, OnFailure]] = []  # those that are in the database already
        self._by_name: dict[str, Step[Any]] = {}
        self._used: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, name: str) -> Step[Any]:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def add(
        self,
        request: Request[T_co],
        *,
        name: str | None = None,
        after: Places = (),
        before: Places = (),
        on_failure: OnFailure | None = None,
    ) -> Step[T_co]:
        """Add a job that runs after others, and before some that wait already.

        Its name must be its own in the workflow; left out, it is the task's with a number.
        """
        _check_request(request)
        parents, children = self._known(after), self._known(before)
        step = Step(self, len(self.steps), self._named(name, request.task), request)
        policy = self.on_failure if on_failure is None else _policy(on_failure)
        self.steps.append(step)
        self._by_name[step.name] = step
        self.parents.append(dict.fromkeys(parents, policy))
        self.children.append({})
        try:
            for child in children:
                self._put_before(step, child, policy)
        except WorkflowCycle:
            self._take_back(step)
            raise
        return step

    def link(
        self, step: Step[Any] | str, *, after: Places, on_failure: OnFailure | None = None
    ) -> None:
        """Let a step wait for others as well; raises WorkflowCycle if one of them waits for it."""
        child = self._place(step)
        if not isinstance(child, int):
            raise WorkflowRefused(f"The workflow has no step {step!r} yet. Add it first.")
        policy = self.on_failure if on_failure is None else _policy(on_failure)
        for parent in self._known(after):
            self._link(parent, child, policy)

    def chain(
        self, *stages: Stage, after: Places = (), on_failure: OnFailure | None = None
    ) -> list[Step[Any]]:
        """Add stages that run one after the other; the steps of the last one.

            flow.chain(fetch.prepare(), [parse.prepare(1), parse.prepare(2)], index.prepare())

        A list is a stage of jobs that run side by side: the next begins when all have completed.
        """
        last: list[Step[Any]] = []
        place: Places = after
        for stage in stages:
            requests = [stage] if isinstance(stage, Request) else list(stage)
            if not requests:
                raise BadArgument("stage", stage, "a request, or a list of at least one")
            last = [self.add(each, after=place, on_failure=on_failure) for each in requests]
            place = list(last)
        return last

    def in_order(self) -> list[Step[Any]]:
        """The steps, each after those that it waits for; otherwise as they were added."""
        if all(p < number for number, p in self._inner_edges()):
            return self.steps
        waiting = [0] * len(self.steps)
        below: list[list[int]] = [[] for _ in self.steps]
        for number, parent in self._inner_edges():
            waiting[number] += 1
            below[parent].append(number)
        order = [number for number, count in enumerate(waiting) if not count]
        for number in order:
            for child in below[number]:
                waiting[child] -= 1
                if not waiting[child]:
                    order.append(child)
        return [self.steps[number] for number in order]

    def _inner_edges(self) -> Iterator[tuple[int, int]]:
        for number, parents in enumerate(self.parents):
            for parent in parents:
                if isinstance(parent, int):
                    yield number, parent

    def _named(self, name: str | None, task: str) -> str:
        if name is not None:
            if name in self._by_name:
                raise WorkflowRefused(
                    f"Two steps of the workflow want the name {name!r}. Give one of them another."
                )
            return str(_step_name("name", name))
        while True:
            self._used[task] = number = self._used.get(task, 0) + 1
            chosen = task if number == 1 else f"{task} {number}"
            if chosen not in self._by_name:
                return chosen

    def _known(self, places: Places) -> list[Known]:
        if isinstance(places, str) or not isinstance(places, Iterable):
            return [self._place(places)]
        return [self._place(each) for each in places]

    def _place(self, place: Place) -> Known:
        if isinstance(place, Step):
            if place.flow is not self:
                raise WorkflowRefused(
                    f"The step {place.name!r} belongs to another workflow. Name a step that is in "
                    "the database already by its name, or by its job."
                )
            return place.number
        if isinstance(place, str):
            own = self._by_name.get(place)
            return place if own is None else own.number
        if isinstance(getattr(place, "id", None), str):
            return Existing(place.id)
        raise TypeError(f"A job waits for steps, jobs, or names of steps; not for {place!r}.")

    def _put_before(self, step: Step[Any], child: Known, policy: OnFailure) -> None:
        if isinstance(child, int):
            self._link(step.number, child, policy)
        else:
            self.children[step.number][child] = policy

    def _link(self, parent: Known, child: int, policy: OnFailure) -> None:
        if isinstance(parent, int) and (way := self._way(child, parent)):
            raise WorkflowCycle(*(self.steps[each].name for each in way))
        self.parents[child][parent] = policy

    def _way(self, start: int, end: int) -> list[int]:
        """The way down from one step to another and back to the first; empty if there is none."""
        came_from = {end: start}
        level = [end]
        while level and start not in came_from:
            found = []
            for number in level:
                for parent in self.parents[number]:
                    if isinstance(parent, int) and parent not in came_from:
                        came_from[parent] = number
                        found.append(parent)
            level = found
        if start not in came_from and start != end:
            return []
        way = [start]
        while way[-1] != end:
            way.append(came_from[way[-1]])
        return [*way, start]

    def _take_back(self, step: Step[Any]) -> None:
        for parents in self.parents:
            parents.pop(step.number, None)
        for kept in (self.steps, self.parents, self.children):
            kept.pop()
        del self._by_name[step.name]


def _policy(value: Any) -> OnFailure:
    if value not in _POLICIES:
        raise ConfigError("on_failure", value, ", ".join(_POLICIES))
    return value  # type: ignore[no-any-return]


def _check_request(request: Any) -> None:
    if not isinstance(request, Request):
        raise TypeError(f"A step is a request, made with task.prepare(…); not {request!r}.")
    for name in ("idempotency_key", "unique"):
        if getattr(request.options, name) is not None:
            raise WorkflowRefused(
                f"A step of a workflow is a job of its own, and {request.task!r} has the option "
                f"{name}, which may stand for another. Leave it out: "
                f"task.options({name}=None).prepare(…)."
            )
