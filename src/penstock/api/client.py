"""Clients of the HTTP API, asynchronous and blocking, with the same calls as the app."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import timedelta
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack

import httpx

from penstock.api.live import STATE_TYPES, Live, New, Subscription
from penstock.api.transport import ApiCalls, AsyncTransport, SyncTransport, Transport
from penstock.connect.enqueue import Enqueued, JobId, JobStatus, Page, id_of
from penstock.connect.wait import result_of, seconds_of
from penstock.errors import BatchTimeout, PenstockError, WaitTimeout
from penstock.groups.answers import Acted, Changed, ManyEnqueued, Number, States, Why
from penstock.groups.batches import BatchId, BatchPage, BatchState, BatchStatus, batch_id_of
from penstock.groups.events import SentEvent
from penstock.groups.failed import DeadFilter, DeadSummary, Purged, Redriven
from penstock.groups.snapshots import SubjectKind
from penstock.groups.workflows import WorkflowPage, WorkflowStatus
from penstock.job import FINAL, Job, State
from penstock.store import drive

Action = Literal["cancel", "retry", "delete"]
TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class AsyncApi(ApiCalls):
    """An asynchronous client of the HTTP API.

    async with AsyncApi("https://queue.example.org", key="pk_…") as api:
        job = await api.enqueue("shop.send_mail", {"to": "ada@example.org"})
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        http: httpx.AsyncClient | None = None,
        transport: Transport | None = None,
    ) -> None:
        """`url` is the address of the service, with the prefix under which it is mounted, if any.

        Pass an `http` client to set proxies, certificates and timeouts. You close it yourself.
        """
        self._owns_client = http is None
        if transport is None:
            client = http or httpx.AsyncClient(timeout=TIMEOUT)
            transport = AsyncTransport(configure(client, url, key))
        super().__init__(transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_client:
            await self._transport.close()

    # Jobs

    async def enqueue(
        self, task: str, args: Mapping[str, Any] | None = None, /, **options: Any
    ) -> Enqueued[Any]:
        """Store one job durably. A call with `idempotency_key` is repeated if its answer is lost.

        await api.enqueue("shop.send_mail", {"to": "ada@example.org"}, delay=60)
        """
        new = New(task, args or {}, options)
        safe = options.get("idempotency_key") is not None
        return await self.ask("POST", "/jobs", Enqueued[Any], body=new, safe=safe)

    async def enqueue_many(self, jobs: Iterable[New]) -> list[Enqueued[Any]]:
        """Store up to 1,000 jobs, all or none. The results are in the order of the jobs."""
        new_jobs = list(jobs)
        safe = all(job.options.get("idempotency_key") is not None for job in new_jobs)
        answer = await self.ask(
            "POST", "/bulk/jobs", ManyEnqueued, body={"jobs": new_jobs}, safe=safe
        )
        return answer.jobs

    async def get(self, job: JobId) -> Job:
        """Return a job as it is now. Raises JobNotFound if there is none, or it was deleted."""
        return await self.ask("GET", f"/jobs/{id_of(job)}", Job)

    async def states(self, jobs: Sequence[JobId]) -> dict[str, JobStatus]:
        """Return state and progress of up to 1,000 jobs. Jobs that do not exist are left out."""
        body = {"ids": [id_of(job) for job in jobs]}
        return (await self.ask("POST", "/bulk/states", States, body=body, safe=True)).states

    async def list(
        self,
        *,
        state: State | Sequence[State] | None = None,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        subject: str | None = None,
        tag: str | None = None,
        text: str | None = None,
        batch: BatchId | None = None,
        workflow: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        """List jobs by filter, newest first. Pass `page.after` as `after` for the next page."""
        return await self.ask(
            "GET", "/jobs", Page,
            state=state, queue=queue, task=task, tenant=tenant, subject=subject, tag=tag, text=text,
            batch=None if batch is None else batch_id_of(batch), workflow=workflow, after=after,
            limit=limit,
        )  # fmt: skip

    async def cancel(self, job: JobId) -> str:
        """End a job now, running or not. Returns its new state."""
        return await self._change("POST", job, "/cancel", safe=True)

    async def retry(self, job: JobId) -> str:
        """Run a job again. Returns its new state."""
        return await self._change("POST", job, "/retry")

    async def unblock(self, job: JobId) -> str:
        """Let a job that waits for others run now. Returns its new state."""
        return await self._change("POST", job, "/unblock")

    async def delete(self, job: JobId) -> str:
        """Delete a job that is not running. Returns `deleted`, or the state that prevented it."""
        return await self._change("DELETE", job)

    async def _change(self, verb: str, job: JobId, path: str = "", *, safe: bool = False) -> str:
        return (await self.ask(verb, f"/jobs/{id_of(job)}{path}", Changed, safe=safe)).state

    async def act(
        self,
        action: Action,
        *,
        jobs: Sequence[JobId] | None = None,
        filter: Mapping[str, Any] | None = None,
        until: str | None = None,
        after: str | None = None,
        completed: bool = False,
        dry_run: bool = False,
    ) -> Acted:
        """Cancel, retry or delete many jobs, which you select by their ids or by a filter.

        A filter matches jobs up to `until`. A dry run only counts, and returns the `until` to pass
        to later calls. While the answer has an `after`, call again with that `after`. A retry by
        ids skips completed jobs, unless `completed` is true.
        """
        selection: dict[str, Any] = {
            "ids": None if jobs is None else [id_of(job) for job in jobs],
            "filter": filter,
            "until": until,
            "after": after,
        }
        body = {name: value for name, value in selection.items() if value is not None}
        body |= {"action": action, "dry_run": dry_run} | ({"completed": True} if completed else {})
        return await self.ask("POST", "/bulk/actions", Acted, body=body, safe=dry_run)

    # Batches and workflows

    async def get_batch(self, batch: BatchId) -> BatchStatus:
        """Return a batch as it is now, with exact counts."""
        return await self.ask("GET", f"/batches/{batch_id_of(batch)}", BatchStatus)

    async def batches(
        self,
        *,
        state: BatchState | None = None,
        name: str | None = None,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> BatchPage:
        """List batches, newest first. Pass `page.after` as `after` for the next page."""
        return await self.ask(
            "GET", "/batches", BatchPage,
            state=state, name=name, tenant=tenant, after=after, limit=limit,
        )  # fmt: skip

    async def cancel_batch(self, batch: BatchId) -> int:
        """Cancel all jobs of a batch that have not ended. Returns how many were cancelled."""
        path = f"/batches/{batch_id_of(batch)}/cancel"
        return (await self.ask("POST", path, Number, safe=True)).changed

    async def get_workflow(self, workflow: str) -> WorkflowStatus:
        """Return a workflow with its steps."""
        return await self.ask("GET", f"/workflows/{workflow}", WorkflowStatus)

    async def workflows(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 100
    ) -> WorkflowPage:
        """List workflows, newest first. Pass `page.after` as `after` for the next page."""
        return await self.ask(
            "GET", "/workflows", WorkflowPage, tenant=tenant, after=after, limit=limit
        )

    async def cancel_workflow(self, workflow: str) -> int:
        """Cancel all jobs of a workflow that have not ended. Returns how many were cancelled."""
        path = f"/workflows/{workflow}/cancel"
        return (await self.ask("POST", path, Number, safe=True)).changed

    # Dead letters and events

    async def dead_letters(
        self, /, *, after: str | None = None, limit: int = 100, **which: Unpack[DeadFilter]
    ) -> Page:
        """List the jobs that have failed for good, latest first."""
        return await self.ask("GET", "/dead", Page, after=after, limit=limit, **which)

    async def dead_summary(self, tenant: str | None = None) -> DeadSummary:
        """Count dead letters by task, reason and type of error, the largest group first."""
        return await self.ask("GET", "/dead/summary", DeadSummary, tenant=tenant)

    async def redrive(
        self,
        /,
        *jobs: JobId,
        rate: str | None = None,
        limit: int = 10_000,
        **which: Unpack[DeadFilter],
    ) -> Redriven:
        """Run dead letters again, selected by ids or by filters, at `rate` if you pass one."""
        body = _selection(jobs, which) | {"limit": limit} | ({} if rate is None else {"rate": rate})
        return await self.ask("POST", "/dead/redrive", Redriven, body=body)

    async def purge(
        self, /, *jobs: JobId, limit: int = 10_000, **which: Unpack[DeadFilter]
    ) -> Purged:
        """Delete dead letters, selected by ids or by filters."""
        body = _selection(jobs, which) | {"limit": limit}
        return await self.ask("POST", "/dead/purge", Purged, body=body)

    async def send_event(self, name: str, payload: Any = None, *, tenant: str = "") -> SentEvent:
        """Send an event. Jobs that wait for its name go on."""
        body = {"name": name, "payload": payload, "tenant": tenant}
        return await self.ask("POST", "/events", SentEvent, body=body)

    # Live

    def live(
        self, kind: SubjectKind, id: str, *, timeout: float | timedelta | None = None
    ) -> AsyncIterator[Live]:
        """Yield the present state of a job, batch, queue, tenant or user, then each later state.

        The client reconnects if the connection is lost. The iterator ends after a final state, or
        at the timeout.
        """
        return Subscription(self._transport, kind, id, seconds_of(timeout)).states(
            STATE_TYPES[kind]
        )

    async def wait(self, job: JobId, timeout: float | timedelta | None = None) -> Any:
        """Wait for a job's result. Raises JobFailed, JobCancelled or WaitTimeout."""
        seconds = seconds_of(timeout)
        current = await self.get(job)
        if current.state not in FINAL:
            async for _ in self.live("job", current.id, timeout=seconds):
                pass
            current = await self.get(job)
        if current.state not in FINAL:
            why = await self._why(f"/jobs/{current.id}/why")
            raise WaitTimeout(current.id, current.state, seconds or 0.0, why)
        return result_of(current)

    async def wait_batch(
        self, batch: BatchId, timeout: float | timedelta | None = None
    ) -> BatchStatus:
        """Wait until a batch is finished, whether or not its jobs failed. Raises BatchTimeout."""
        seconds = seconds_of(timeout)
        status = await self.get_batch(batch)
        if not status.is_finished:
            async for _ in self.live("batch", status.id, timeout=seconds):
                pass
            status = await self.get_batch(batch)
        if not status.is_finished:
            why = await self._why(f"/batches/{status.id}/why")
            raise BatchTimeout(status.id, status.state, status.pending, seconds or 0.0, why)
        return status

    async def _why(self, path: str) -> str:
        """Return why a job or batch has not ended, or an empty text if the service refuses."""
        try:
            return (await self.ask("GET", path, Why)).why
        except PenstockError:
            return ""


def configure(client: Any, url: str, key: str | None) -> Any:
    """Set the base URL and the key of an httpx client. Returns the client."""
    client.base_url = httpx.URL(url)
    if key is not None:
        client.headers["authorization"] = f"Bearer {key}"
    return client


def _selection(jobs: Sequence[JobId], which: DeadFilter) -> dict[str, Any]:
    return {"ids": [id_of(job) for job in jobs]} if jobs else {"filter": which}


P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[AsyncApi, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Api, P], T]:
    """Turn an asynchronous method into a blocking one with the same parameters and result."""

    @wraps(method)
    def call(self: Api, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(method(self._api, *args, **kwargs))

    return call


class Api:
    """A blocking client of the HTTP API, for scripts, threads and synchronous frameworks.

    with Api("https://queue.example.org", key="pk_…") as api:
        job = api.enqueue("shop.send_mail", {"to": "ada@example.org"})
    """

    def __init__(
        self, url: str, *, key: str | None = None, http: httpx.Client | None = None
    ) -> None:
        """`url` is the address of the service, with the prefix under which it is mounted, if any.

        Pass an `http` client to set proxies, certificates and timeouts. You close it yourself.
        """
        self._owns_client = http is None
        client = http or httpx.Client(timeout=TIMEOUT)
        self._api = AsyncApi(url, transport=SyncTransport(configure(client, url, key)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns_client:
            drive(self._api.close())

    ask = blocking(AsyncApi.ask)
    enqueue = blocking(AsyncApi.enqueue)
    enqueue_many = blocking(AsyncApi.enqueue_many)
    get = blocking(AsyncApi.get)
    states = blocking(AsyncApi.states)
    list = blocking(AsyncApi.list)
    wait = blocking(AsyncApi.wait)
    cancel = blocking(AsyncApi.cancel)
    retry = blocking(AsyncApi.retry)
    unblock = blocking(AsyncApi.unblock)
    delete = blocking(AsyncApi.delete)
    act = blocking(AsyncApi.act)
    get_batch = blocking(AsyncApi.get_batch)
    batches = blocking(AsyncApi.batches)
    wait_batch = blocking(AsyncApi.wait_batch)
    cancel_batch = blocking(AsyncApi.cancel_batch)
    get_workflow = blocking(AsyncApi.get_workflow)
    workflows = blocking(AsyncApi.workflows)
    cancel_workflow = blocking(AsyncApi.cancel_workflow)
    dead_letters = blocking(AsyncApi.dead_letters)
    dead_summary = blocking(AsyncApi.dead_summary)
    redrive = blocking(AsyncApi.redrive)
    purge = blocking(AsyncApi.purge)
    send_event = blocking(AsyncApi.send_event)

    def live(
        self, kind: SubjectKind, id: str, *, timeout: float | timedelta | None = None
    ) -> Iterator[Live]:
        """Yield the present state of a subject, then each later state. See `AsyncApi.live`."""
        states: Any = self._api.live(kind, id, timeout=timeout)
        return _driven(states)


def _driven(states: AsyncGenerator[Live, None]) -> Iterator[Live]:
    try:
        while True:
            try:
                state = drive(anext(states))
            except StopAsyncIteration:
                return
            yield state
    finally:
        drive(states.aclose())
