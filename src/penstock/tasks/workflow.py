"""Builds a workflow, jobs that wait for each other, before anything is stored."""

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
    """A job that the handler's job has waited for: its state, and its result or last error."""

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
    """A parent of a job, which means that the job waits for it or has waited for it.

    `satisfied` is True if the job no longer waits for this parent. `state` is `missing` if the
    parent was deleted.
    """

    id: str
    step: str | None
    task: str | None
    state: State | Literal["missing"]
    satisfied: bool
    on_failure: str

    def __str__(self) -> str:
        return f"{self.step or self.task or 'a job'} ({self.state}, job {self.id})"


def by_step(parents: Iterable[Parent]) -> dict[str, Parent]:
    """Return the parents by the names of their steps. The id is added to a name that is taken."""
    by_name: dict[str, Parent] = {}
    for parent in parents:
        is_taken = parent.step in by_name
        by_name[f"{parent.step} #{parent.id}" if is_taken else parent.step] = parent
    return by_name


T_co = TypeVar("T_co", covariant=True)

OnFailure = Literal["cancel", "continue", "wait"]
_POLICIES: Final = get_args(OnFailure)
_step_name = CHECKS["requested_by"]


class Step(Generic[T_co]):
    """One job of a workflow that is being built. T is the type that its handler returns."""

    __slots__ = ("flow", "name", "number", "request")

    def __init__(self, flow: Workflow, number: int, name: str, request: Request[T_co]) -> None:
        self.flow = flow
        self.number = number
        self.name = name
        self.request = request

    def __repr__(self) -> str:
        return f"<Step {self.name}>"


class HasId(Protocol):
    """Anything that has the id of a job, such as what `app.enqueue` and `app.get` return."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ExistingJob:
    """A job that is in the database already, by its id."""

    id: str


# A text is the name of a step, of this workflow or of the one in the database.
StepReference: TypeAlias = Step[Any] | HasId | str
StepReferences: TypeAlias = StepReference | Iterable[StepReference]
Stage: TypeAlias = Request[Any] | Sequence[Request[Any]]
# The end of an edge: the number of a step, a job in the database, or the name of a step there.
Node: TypeAlias = int | ExistingJob | str


class Workflow:
    """Jobs that wait for each other. Nothing is stored until `app.start_workflow(flow)`.

        flow = Workflow("import")
        fetch = flow.add(fetch_site.prepare(url), name="fetch")
        pages = [flow.add(parse.prepare(n), after=fetch) for n in range(10)]
        flow.add(index_all.prepare(), after=pages, on_failure="continue")
        started = await app.start_workflow(flow)

    `on_failure` says what happens to a job if a job that it waits for does not complete:

    - `cancel`: the job and all that depend on it are cancelled.
    - `continue`: the job runs all the same.
    - `wait`: the job stays blocked until the other job is run again and completes, or until
      somebody unblocks the blocked job.
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
        self.parents: list[dict[Node, OnFailure]] = []
        self.children: list[dict[Node, OnFailure]] = []  # only those in the database already
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
        after: StepReferences = (),
        before: StepReferences = (),
        on_failure: OnFailure | None = None,
    ) -> Step[T_co]:
        """Add a job. It waits for the jobs of `after`, and the jobs of `before` wait for it.

        Its name must be unique in the workflow. By default it is the task's name with a number.
        """
        _check_request(request)
        parents, children = self._resolve_all(after), self._resolve_all(before)
        step = Step(self, len(self.steps), self._choose_name(name, request.task), request)
        policy = self.on_failure if on_failure is None else _policy(on_failure)
        self.steps.append(step)
        self._by_name[step.name] = step
        self.parents.append(dict.fromkeys(parents, policy))
        self.children.append({})
        try:
            for child in children:
                self._link_to_child(step, child, policy)
        except WorkflowCycle:
            self._remove(step)
            raise
        return step

    def link(
        self, step: Step[Any] | str, *, after: StepReferences, on_failure: OnFailure | None = None
    ) -> None:
        """Let a step wait for more jobs. Raises WorkflowCycle if one of them waits for it."""
        child = self._resolve(step)
        if not isinstance(child, int):
            raise WorkflowRefused(f"The workflow has no step {step!r} yet. Add it first.")
        policy = self.on_failure if on_failure is None else _policy(on_failure)
        for parent in self._resolve_all(after):
            self._link(parent, child, policy)

    def chain(
        self, *stages: Stage, after: StepReferences = (), on_failure: OnFailure | None = None
    ) -> list[Step[Any]]:
        """Add stages that run one after the other, and return the steps of the last stage.

            flow.chain(fetch.prepare(), [parse.prepare(1), parse.prepare(2)], index.prepare())

        A list is a stage of jobs that run side by side. The next stage begins when all of them
        have completed.
        """
        last: list[Step[Any]] = []
        parents: StepReferences = after
        for stage in stages:
            requests = [stage] if isinstance(stage, Request) else list(stage)
            if not requests:
                raise BadArgument("stage", stage, "a request, or a list of at least one")
            last = [self.add(each, after=parents, on_failure=on_failure) for each in requests]
            parents = list(last)
        return last

    def in_order(self) -> list[Step[Any]]:
        """Return the steps in an order in which each step comes after the steps it waits for.

        If they were added in such an order, that order is kept.
        """
        if all(parent < number for number, parent in self._inner_edges()):
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
        """Yield pairs of numbers: of a step, and of a step in this workflow that it waits for."""
        for number, parents in enumerate(self.parents):
            for parent in parents:
                if isinstance(parent, int):
                    yield number, parent

    def _choose_name(self, name: str | None, task: str) -> str:
        if name is not None:
            if name in self._by_name:
                raise WorkflowRefused(
                    f"Two steps of the workflow have the name {name!r}. Give one of them another."
                )
            return str(_step_name("name", name))
        while True:
            self._used[task] = number = self._used.get(task, 0) + 1
            chosen = task if number == 1 else f"{task} {number}"
            if chosen not in self._by_name:
                return chosen

    def _resolve_all(self, references: StepReferences) -> list[Node]:
        if isinstance(references, str) or not isinstance(references, Iterable):
            return [self._resolve(references)]
        return [self._resolve(each) for each in references]

    def _resolve(self, reference: StepReference) -> Node:
        if isinstance(reference, Step):
            if reference.flow is not self:
                raise WorkflowRefused(
                    f"The step {reference.name!r} belongs to another workflow. Refer to a step "
                    "that is already stored by its name or its job."
                )
            return reference.number
        if isinstance(reference, str):
            own = self._by_name.get(reference)
            return reference if own is None else own.number
        if isinstance(getattr(reference, "id", None), str):
            return ExistingJob(reference.id)
        raise TypeError(
            f"A step can wait for steps, jobs or names of steps, not for {reference!r}."
        )

    def _link_to_child(self, step: Step[Any], child: Node, policy: OnFailure) -> None:
        if isinstance(child, int):
            self._link(step.number, child, policy)
        else:
            self.children[step.number][child] = policy

    def _link(self, parent: Node, child: int, policy: OnFailure) -> None:
        if isinstance(parent, int) and (cycle := self._find_cycle(child, parent)):
            raise WorkflowCycle(*(self.steps[number].name for number in cycle))
        self.parents[child][parent] = policy

    def _find_cycle(self, start: int, end: int) -> list[int]:
        """Return the cycle that would arise if step `start` waited for step `end`, or [].

        The cycle goes from `start` along children to `end`, and then back to `start`.
        """
        came_from = {end: start}
        level = [end]
        while level and start not in came_from:
            next_level = []
            for number in level:
                for parent in self.parents[number]:
                    if isinstance(parent, int) and parent not in came_from:
                        came_from[parent] = number
                        next_level.append(parent)
            level = next_level
        if start not in came_from and start != end:
            return []
        path = [start]
        while path[-1] != end:
            path.append(came_from[path[-1]])
        return [*path, start]

    def _remove(self, step: Step[Any]) -> None:
        """Remove the step that was added last."""
        for parents in self.parents:
            parents.pop(step.number, None)
        for values in (self.steps, self.parents, self.children):
            values.pop()
        del self._by_name[step.name]


def _policy(value: Any) -> OnFailure:
    if value not in _POLICIES:
        raise ConfigError("on_failure", value, ", ".join(_POLICIES))
    return value  # type: ignore[no-any-return]


def _check_request(request: Any) -> None:
    if not isinstance(request, Request):
        raise TypeError(f"A step must be a request, made with task.prepare(…), not {request!r}.")
    for name in ("idempotency_key", "unique"):
        if getattr(request.options, name) is not None:
            raise WorkflowRefused(
                f"Each step of a workflow must be a new job, but {request.task!r} has the option "
                f"{name}, with which an existing job may take its place. Leave the option out: "
                f"task.options({name}=None).prepare(…)."
            )
