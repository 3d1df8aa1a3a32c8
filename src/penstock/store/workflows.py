"""Run the statements for workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from penstock.store.connection import Executor
from penstock.store.enqueue import JobLinks, stored_form
from penstock.store.store import Store
from penstock.tasks import Request
from penstock.tasks.workflow import Awaited, ExistingJob, Node, OnFailure, Parent, Workflow

Row = dict[str, Any]


class Added(NamedTuple):
    """A stored step. It is a duplicate if an earlier attempt of the same job stored it."""

    id: int
    duplicate: bool


class Workflows:
    """Run statements for workflows on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Start and extend

    async def create(
        self, on: Executor, flow: Workflow, tenant: str, *, by: str | None = None
    ) -> int:
        """Create a workflow without jobs, and return its id."""
        statement = self._store.statement("create_workflow")
        return int(await on.fetchval(statement, tenant, flow.name, flow.meta, by))

    async def extend(
        self, on: Executor, workflow: int, flow: Workflow, *, notify: bool, durable: bool
    ) -> list[Added]:
        """Add steps to a workflow. The results are in the order of `flow.in_order()`."""
        options = msgspec.json.encode({"notify": notify, "durable": durable}).decode()
        rows = await on.fetch(
            self._store.statement("extend_workflow"), workflow, encode_steps(flow), options
        )
        return [Added(row["id"], row["duplicate"]) for row in rows]

    # Workers

    async def extend_own(
        self, on: Executor, job: int, token: UUID, call: int, steps: str
    ) -> list[Added]:
        """Add steps, in the form of `encode_steps`, to the workflow of a running job.

        Steps that earlier attempts of the job have added are not added again.
        """
        rows = await on.fetch(self._store.call("extend_own_workflow"), job, token, call, steps)
        return [Added(row["id"], row["duplicate"]) for row in rows]

    async def parents(self, on: Executor, job: int, token: UUID) -> list[Parent]:
        """Return the outcomes of the jobs that a running job has waited for."""
        rows = await on.fetch(self._store.statement("read_parents"), job, token)
        return [_parent(dict(row)) for row in rows]

    # People

    async def find(self, on: Executor, workflow: int) -> Row | None:
        row = await on.fetchrow(self._store.statement("get_workflow"), workflow)
        return None if row is None else dict(row)

    async def is_finished(self, on: Executor, workflow: int) -> bool | None:
        """Return whether a workflow has finished, or None if it does not exist."""
        finished: bool | None = await on.fetchval(
            self._store.statement("is_workflow_finished"), workflow
        )
        return finished

    async def page(
        self, on: Executor, tenant: str | None, after: int | None, limit: int
    ) -> list[Row]:
        return await self._rows(on, "list_workflows", tenant, after, limit)

    async def steps(self, on: Executor, workflow: int) -> list[Row]:
        return await self._rows(on, "list_workflow_steps", workflow)

    async def awaited(self, on: Executor, job: int) -> list[Awaited]:
        """Return the jobs that a job waits for or has waited for."""
        rows = await self._rows(on, "list_dependencies", job)
        return [Awaited(**row | {"id": str(row["id"])}) for row in rows]

    async def cancel(self, on: Executor, workflow: int, reason: str, by: str | None) -> int | None:
        """Cancel a workflow. Return how many jobs it ended, or None if it does not exist."""
        ended: int | None = await on.fetchval(
            self._store.statement("cancel_workflow"), workflow, reason, by
        )
        return ended

    async def retry(self, on: Executor, workflow: int, by: str | None) -> int | None:
        """Retry a workflow. Return how many jobs run again, or None if it does not exist."""
        retried: int | None = await on.fetchval(
            self._store.statement("retry_workflow"), workflow, by
        )
        return retried

    async def count_cancelled_branches(self, on: Executor, ids: Sequence[int]) -> Counter[str]:
        """Count, by workflow, the retried jobs whose failure had cancelled their dependents."""
        rows = await self._rows(on, "list_cancelled_branches", list(ids))
        return Counter({str(row["workflow"]): row["steps"] for row in rows})

    async def unblock(self, on: Executor, ids: Sequence[int], by: str | None) -> dict[int, str]:
        rows = await on.fetch(self._store.statement("unblock_jobs"), list(ids), by)
        return {row["id"]: row["answer"] for row in rows}

    async def _rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]


def links(flow: Workflow, workflow: int) -> JobLinks:
    """Return the names and parents of a new workflow's steps, in the order of `flow.in_order()`."""
    order = flow.in_order()
    positions = {step.number: at for at, step in enumerate(order, start=1)}
    parents = [_encode_edges(flow.parents[step.number], positions) for step in order]
    return JobLinks(
        workflow=workflow,
        steps=[step.name for step in order],
        parents=parents if any(parents) else None,
    )


def encode_steps(flow: Workflow) -> str:
    """Return the steps to add as JSON, with their requests and edges."""
    order = flow.in_order()
    positions = {step.number: at for at, step in enumerate(order, start=1)}
    encode_steps = [
        {
            "request": stored_form(step.request) | _own_options(step.request),
            "step": step.name,
            "parents": _raw_edges(flow.parents[step.number], positions),
            "children": _raw_edges(flow.children[step.number], positions),
        }
        for step in order
    ]
    return msgspec.json.encode(encode_steps).decode()


def _own_options(request: Request[Any]) -> dict[str, Any]:
    """Return those of `run_at`, `deadline` and `tenant` that are set; `stored_form` lacks them."""
    options = request.options
    values = {"run_at": options.run_at, "deadline": options.deadline, "tenant": options.tenant}
    return {name: value for name, value in values.items() if value}


def _raw_edges(edges: dict[Node, OnFailure], positions: dict[int, int]) -> msgspec.Raw:
    return msgspec.Raw((_encode_edges(edges, positions) or "[]").encode())


def _encode_edges(edges: dict[Node, OnFailure], positions: dict[int, int]) -> str | None:
    if not edges:
        return None
    encoded = [_edge(step, policy, positions) for step, policy in edges.items()]
    return msgspec.json.encode(encoded).decode()


def _edge(step: Node, policy: OnFailure, positions: dict[int, int]) -> dict[str, Any]:
    """Return an edge to a new step (a number), to an existing job, or to a step given by name."""
    edge: dict[str, Any] = {}
    if isinstance(step, int):
        edge["at"] = positions[step]
    elif isinstance(step, ExistingJob):
        edge["job"] = step.id
    else:
        edge["step"] = step
    if policy != "cancel":
        edge["on_failure"] = policy
    return edge


def _parent(row: Row) -> Parent:
    row["result"] = None if row["result"] is None else msgspec.json.decode(row["result"])
    return Parent(**row | {"id": str(row["id"]), "step": row["step"] or row["task"]})
