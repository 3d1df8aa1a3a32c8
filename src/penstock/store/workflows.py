"""The statements of workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from penstock.store.connection import Executor
from penstock.store.enqueue import Links, stored_form
from penstock.store.store import Store
from penstock.tasks import Request
from penstock.tasks.workflow import Awaited, Existing, Known, OnFailure, Parent, Workflow

Row = dict[str, Any]


class Added(NamedTuple):
    """A step that was stored; a duplicate was there before, by the same attempt's job."""

    id: int
    duplicate: bool


class Workflows:
    """Statements about workflows, on whatever connection the caller has."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Those who put them together

    async def create(
        self, on: Executor, flow: Workflow, tenant: str, *, by: str | None = None
    ) -> int:
        """A new workflow, without jobs."""
        statement = self._store.statement("create_workflow")
        return int(await on.fetchval(statement, tenant, flow.name, flow.meta, by))

    async def extend(
        self, on: Executor, workflow: int, flow: Workflow, *, notify: bool, durable: bool
    ) -> list[Added]:
        """Add steps to a workflow, in the order of `flow.in_order()`."""
        options = msgspec.json.encode({"notify": notify, "durable": durable}).decode()
        rows = await on.fetch(
            self._store.statement("extend_workflow"), workflow, encode_steps(flow), options
        )
        return [Added(row["id"], row["duplicate"]) for row in rows]

    # Workers

    async def extend_own(
        self, on: Executor, job: int, token: UUID, call: int, added: str
    ) -> list[Added]:
        """Add steps in the form of `encode_steps` from an attempt; those of earlier attempts are
        not added again."""
        rows = await on.fetch(self._store.call("extend_own_workflow"), job, token, call, added)
        return [Added(row["id"], row["duplicate"]) for row in rows]

    async def parents(self, on: Executor, job: int, token: UUID) -> list[Parent]:
        """What the jobs came to that this one has waited for."""
        rows = await on.fetch(self._store.statement("read_parents"), job, token)
        return [_parent(dict(row)) for row in rows]

    # People

    async def find(self, on: Executor, workflow: int) -> Row | None:
        row = await on.fetchrow(self._store.statement("get_workflow"), workflow)
        return None if row is None else dict(row)

    async def is_finished(self, on: Executor, workflow: int) -> bool | None:
        """None if there is no such workflow."""
        over: bool | None = await on.fetchval(
            self._store.statement("is_workflow_finished"), workflow
        )
        return over

    async def page(
        self, on: Executor, tenant: str | None, after: int | None, limit: int
    ) -> list[Row]:
        return await self._rows(on, "list_workflows", tenant, after, limit)

    async def steps(self, on: Executor, workflow: int) -> list[Row]:
        return await self._rows(on, "list_workflow_steps", workflow)

    async def awaited(self, on: Executor, job: int) -> list[Awaited]:
        """The jobs that one waits for, and those that it has waited for."""
        rows = await self._rows(on, "list_dependencies", job)
        return [Awaited(**row | {"id": str(row["id"])}) for row in rows]

    async def cancel(self, on: Executor, workflow: int, reason: str, by: str | None) -> int | None:
        """How many jobs were ended; None if there is no such workflow."""
        ended: int | None = await on.fetchval(
            self._store.statement("cancel_workflow"), workflow, reason, by
        )
        return ended

    async def retry(self, on: Executor, workflow: int, by: str | None) -> int | None:
        """How many jobs came back; None if there is no such workflow."""
        back: int | None = await on.fetchval(self._store.statement("retry_workflow"), workflow, by)
        return back

    async def count_cancelled_branches(self, on: Executor, ids: Sequence[int]) -> Counter[str]:
        """Of jobs that came back alone, how many have steps behind them, by their workflows."""
        rows = await self._rows(on, "list_cancelled_branches", list(ids))
        return Counter({str(row["workflow"]): row["steps"] for row in rows})

    async def unblock(self, on: Executor, ids: Sequence[int], by: str | None) -> dict[int, str]:
        rows = await on.fetch(self._store.statement("unblock_jobs"), list(ids), by)
        return {row["id"]: row["answer"] for row in rows}

    async def _rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]


def links(flow: Workflow, workflow: int) -> Links:
    """What the steps of a new workflow wait for, in the order of `flow.in_order()`."""
    order = flow.in_order()
    at = {step.number: place for place, step in enumerate(order, start=1)}
    parents = [_edges(flow.parents[step.number], at) for step in order]
    return Links(
        workflow=workflow,
        steps=[step.name for step in order],
        parents=parents if any(parents) else None,
    )


def encode_steps(flow: Workflow) -> str:
    """All that is to be added, as JSON."""
    order = flow.in_order()
    at = {step.number: place for place, step in enumerate(order, start=1)}
    encode_steps = [
        {
            "request": stored_form(step.request) | _more(step.request),
            "step": step.name,
            "parents": msgspec.Raw((_edges(flow.parents[step.number], at) or "[]").encode()),
            "children": msgspec.Raw((_edges(flow.children[step.number], at) or "[]").encode()),
        }
        for step in order
    ]
    return msgspec.json.encode(encode_steps).decode()


def _more(request: Request[Any]) -> dict[str, Any]:
    """What `stored_form` leaves to the one who enqueues."""
    options = request.options
    given = {"run_at": options.run_at, "deadline": options.deadline, "tenant": options.tenant}
    return {name: value for name, value in given.items() if value}


def _edges(edges: dict[Known, OnFailure], at: dict[int, int]) -> str | None:
    if not edges:
        return None
    return msgspec.json.encode([_edge(one, policy, at) for one, policy in edges.items()]).decode()


def _edge(one: Known, policy: OnFailure, at: dict[int, int]) -> dict[str, Any]:
    edge: dict[str, Any] = {}
    if isinstance(one, int):
        edge["at"] = at[one]
    elif isinstance(one, Existing):
        edge["job"] = one.id
    else:
        edge["step"] = one
    if policy != "cancel":
        edge["on_failure"] = policy
    return edge


def _parent(row: Row) -> Parent:
    row["result"] = None if row["result"] is None else msgspec.json.decode(row["result"])
    return Parent(**row | {"id": str(row["id"]), "step": row["step"] or row["task"]})
