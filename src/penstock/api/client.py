"""The client of the HTTP API, awaiting and blocking: the calls that the engine's own client has."""

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

from penstock.api.live import STATES, Live, New, Watching
from penstock.api.transport import Asking, Awaiting, Blocking, Wire
from penstock.connect.enqueue import Enqueued, JobId, JobStatus, Page, id_of
from penstock.connect.wait import seconds_of, verdict
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


class AsyncApi(Asking):
    """A service, asked with `await`.

    async with AsyncApi("https://queue.example.org", key="pk_…") as api:
        job = await api.enqueue("shop.send_mail", {"to": "ada@example.org"})
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        http: httpx.AsyncClient | None = None,
        wire: Wire | None = None,
    ) -> None:
        """`url` is where the service is, with the prefix that it is mounted under, if any.

        An `http` client of your own brings proxies, certificates and timeouts; it is left open.
        """
        self._owns = http is None
        if wire is None:
            client = http or httpx.AsyncClient(timeout=TIMEOUT)
            wire = Awaiting(lead(client, url, key))
        super().__init__(wire)

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
        if self._owns:
            await self._wire.close()

    # Jobs

    async def enqueue(
        self, task: str, args: Mapping[str, Any] | None = None, /, **options: Any
    ) -> Enqueued[Any]:
        """Store one job durably. With an `idempotency_key` it is asked again if an answer is lost.

        await api.enqueue("shop.send_mail", {"to": "ada@example.org"}, delay=60)
        """
        new = New(task, args or {}, options)
        safe = options.get("idempotency_key") is not None
        return await self.ask("POST", "/jobs", Enqueued[Any], body=new, safe=safe)

    async def enqueue_many(self, jobs: Iterable[New]) -> list[Enqueued[Any]]:
        """Store up to 1,000 jobs, all or none; the answers come in the same order."""
        given = list(jobs)
        safe = all(each.options.get("idempotency_key") is not None for each in given)
        answer = await self.ask("POST", "/bulk/jobs", ManyEnqueued, body={"jobs": given}, safe=safe)
        return answer.jobs

    async def get(self, job: JobId) -> Job:
        """The job as it is now; JobNotFound if it never was or is long gone."""
        return await self.ask("GET", f"/jobs/{id_of(job)}", Job)

    async def states(self, jobs: Sequence[JobId]) -> dict[str, JobStatus]:
        """State and progress of up to 1,000 jobs; those not found are left out."""
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
        """Jobs by filter, newest first. Pass `page.after` as `after` for the next page."""
        return await self.ask(
            "GET", "/jobs", Page,
            state=state, queue=queue, task=task, tenant=tenant, subject=subject, tag=tag, text=text,
            batch=None if batch is None else batch_id_of(batch), workflow=workflow, after=after,
            limit=limit,
        )  # fmt: skip

    async def cancel(self, job: JobId) -> str:
        """End a job now, running or not; the state that it has then."""
        return await self._change("POST", job, "/cancel", safe=True)

    async def retry(self, job: JobId) -> str:
        """Run a job again; the state that it has then."""
        return await self._change("POST", job, "/retry")

    async def unblock(self, job: JobId) -> str:
        """Let a job run now that waits for others; the state that it has then."""
        return await self._change("POST", job, "/unblock")

    async def delete(self, job: JobId) -> str:
        """Erase a job that does not run; `deleted`, or the state for which it was not."""
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
        """Change many jobs: some by their ids, or by a filter those not newer than `until`.

        A dry run counts, and gives the `until`. Call again with `after` while there is one. A retry
        by ids leaves those that have completed, unless it says `completed`.
        """
        given: dict[str, Any] = {
            "ids": None if jobs is None else [id_of(job) for job in jobs],
            "filter": filter,
            "until": until,
            "after": after,
        }
        body = {name: value for name, value in given.items() if value is not None}
        body |= {"action": action, "dry_run": dry_run} | ({"completed": True} if completed else {})
        return await self.ask("POST", "/bulk/actions", Acted, body=body, safe=dry_run)

    # Batches and workflows

    async def get_batch(self, batch: BatchId) -> BatchStatus:
        """A batch as it is now, with exact counts."""
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
        """Batches, newest first. Pass `page.after` as `after` for the next page."""
        return await self.ask(
            "GET", "/batches", BatchPage,
            state=state, name=name, tenant=tenant, after=after, limit=limit,
        )  # fmt: skip

    async def cancel_batch(self, batch: BatchId) -> int:
        """End all jobs of a batch that have not ended; how many."""
        path = f"/batches/{batch_id_of(batch)}/cancel"
        return (await self.ask("POST", path, Number, safe=True)).changed

    async def get_workflow(self, workflow: str) -> WorkflowStatus:
        """A workflow with its steps."""
        return await self.ask("GET", f"/workflows/{workflow}", WorkflowStatus)

    async def workflows(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 100
    ) -> WorkflowPage:
        """Workflows, newest first. Pass `page.after` as `after` for the next page."""
        return await self.ask(
            "GET", "/workflows", WorkflowPage, tenant=tenant, after=after, limit=limit
        )

    async def cancel_workflow(self, workflow: str) -> int:
        """End all jobs of a workflow that have not ended; how many."""
        path = f"/workflows/{workflow}/cancel"
        return (await self.ask("POST", path, Number, safe=True)).changed

    # Dead letters and events

    async def dead_letters(
        self, /, *, after: str | None = None, limit: int = 100, **which: Unpack[DeadFilter]
    ) -> Page:
        """Jobs that have failed for good, the latest first."""
        return await self.ask("GET", "/dead", Page, after=after, limit=limit, **which)

    async def dead_summary(self, tenant: str | None = None) -> DeadSummary:
        """Dead letters by task, reason and type of error, the most first."""
        return await self.ask("GET", "/dead/summary", DeadSummary, tenant=tenant)

    async def redrive(
        self,
        /,
        *jobs: JobId,
        rate: str | None = None,
        limit: int = 10_000,
        **which: Unpack[DeadFilter],
    ) -> Redriven:
        """Bring dead letters back, at a rate if one is given."""
        body = _chosen(jobs, which) | {"limit": limit} | ({} if rate is None else {"rate": rate})
        return await self.ask("POST", "/dead/redrive", Redriven, body=body)

    async def purge(
        self, /, *jobs: JobId, limit: int = 10_000, **which: Unpack[DeadFilter]
    ) -> Purged:
        """Erase dead letters."""
        body = _chosen(jobs, which) | {"limit": limit}
        return await self.ask("POST", "/dead/purge", Purged, body=body)

    async def send_event(self, name: str, payload: Any = None, *, tenant: str = "") -> SentEvent:
        """Send an event; jobs that wait for its name go on."""
        body = {"name": name, "payload": payload, "tenant": tenant}
        return await self.ask("POST", "/events", SentEvent, body=body)

    # Live

    def live(
        self, kind: SubjectKind, id: str, *, timeout: float | timedelta | None = None
    ) -> AsyncIterator[Live]:
        """The present state of a job, batch, queue, tenant or user, then each that follows.

        It comes back after a lost connection, to this server or another, and ends after a final
        state, or when the time is up.
        """
        return Watching(self._wire, kind, id, seconds_of(timeout)).states(STATES[kind])

    async def wait(self, job: JobId, timeout: float | timedelta | None = None) -> Any:
        """The job's result once it is done; raises JobFailed, JobCancelled or WaitTimeout."""
        seconds = seconds_of(timeout)
        found = await self.get(job)
        if found.state not in FINAL:
            async for _ in self.live("job", found.id, timeout=seconds):
                pass
            found = await self.get(job)
        if found.state not in FINAL:
            why = await self._why(f"/jobs/{found.id}/why")
            raise WaitTimeout(found.id, found.state, seconds or 0.0, why)
        return verdict(found)

    async def wait_batch(
        self, batch: BatchId, timeout: float | timedelta | None = None
    ) -> BatchStatus:
        """The batch once it is finished; raises BatchTimeout, never for what its jobs came to."""
        seconds = seconds_of(timeout)
        found = await self.get_batch(batch)
        if not found.is_finished:
            async for _ in self.live("batch", found.id, timeout=seconds):
                pass
            found = await self.get_batch(batch)
        if not found.is_finished:
            why = await self._why(f"/batches/{found.id}/why")
            raise BatchTimeout(found.id, found.state, found.pending, seconds or 0.0, why)
        return found

    async def _why(self, path: str) -> str:
        """The reason that the service gives; empty if it cannot say."""
        try:
            return (await self.ask("GET", path, Why)).why
        except PenstockError:
            return ""


def lead(client: Any, url: str, key: str | None) -> Any:
    """Let a client ask this service, as whoever has this key."""
    client.base_url = httpx.URL(url)
    if key is not None:
        client.headers["authorization"] = f"Bearer {key}"
    return client


def _chosen(jobs: Sequence[JobId], which: DeadFilter) -> dict[str, Any]:
    return {"ids": [id_of(job) for job in jobs]} if jobs else {"filter": which}


P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[AsyncApi, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Api, P], T]:
    """A call as one that blocks, with the same parameters and the same result."""

    @wraps(method)
    def call(self: Api, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(method(self._api, *args, **kwargs))

    return call


class Api:
    """A service, for scripts, threads and frameworks that block.

    with Api("https://queue.example.org", key="pk_…") as api:
        job = api.enqueue("shop.send_mail", {"to": "ada@example.org"})
    """

    def __init__(
        self, url: str, *, key: str | None = None, http: httpx.Client | None = None
    ) -> None:
        """`url` is where the service is, with the prefix that it is mounted under, if any.

        An `http` client of your own brings proxies, certificates and timeouts; it is left open.
        """
        self._owns = http is None
        client = http or httpx.Client(timeout=TIMEOUT)
        self._api = AsyncApi(url, wire=Blocking(lead(client, url, key)))

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
        if self._owns:
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
        """The present state of a subject, then each that follows. See `AsyncApi.live`."""
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
