"""The client of the API against a real server: with `await` and without."""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import asyncpg
import httpx
import pytest

from penstock import (
    BadArgument,
    BatchTimeout,
    Context,
    IdempotencyMismatch,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NotRetryable,
    Penstock,
    RequestRefused,
    ServiceUnreachable,
    WaitTimeout,
)
from penstock.api import Api, AsyncApi, New
from penstock.api import transport as api_transport
from penstock.api.transport import ApiCalls
from penstock.groups.snapshots import JobNow
from penstock.job import Job, Progress
from penstock.service import Service
from tests.fixtures.dead import dead
from tests.fixtures.service import asked, service_of, serving
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

T = TypeVar("T")


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    @app.task(name="double")
    async def double(ctx: Context, number: int) -> int:
        ctx.progress(1, 1, "doubled")
        return 2 * number

    @app.task(name="fail")
    async def fail() -> None:
        raise NotRetryable("no use")


@pytest.fixture
async def api(server: str) -> AsyncIterator[AsyncApi]:
    async with AsyncApi(server, key="pk_test") as api:
        yield api


async def blocking(url: str, use: Callable[[Api], T]) -> T:
    """What a thread does with the blocking client, while the server's loop goes on."""

    def work() -> T:
        with Api(url) as api:
            return use(api)

    return await asyncio.to_thread(work)


async def test_a_job_is_enqueued_waited_for_and_looked_at(app: Penstock, api: AsyncApi) -> None:
    async with worker_of(app, "default"):
        job = await api.enqueue("double", {"number": 21}, subject="s", tags=["t"])
        assert await api.wait(job, timeout=20) == 42

        found = await api.get(job)
        assert isinstance(found, Job)
        assert (found.state, found.subject, found.args) == ("completed", "s", {"number": 21})
        assert found.progress == Progress(done=1, total=1, message="doubled")
        with pytest.raises(JobFailed, match="no use"):
            await api.wait(await api.enqueue("fail"), timeout=20)


async def test_the_same_without_awaiting(app: Penstock, server: str) -> None:
    def use(api: Api) -> tuple[Any, list[str], Job]:
        job = api.enqueue("double", {"number": 4})
        result = api.wait(job, timeout=20)
        seen = [each.state.state for each in api.live("job", job.id) if each.state]  # type: ignore[union-attr]
        return result, seen, api.get(job)

    async with worker_of(app, "default"):
        result, seen, job = await blocking(server, use)

    assert (result, seen, job.state) == (8, ["completed"], "completed")


async def test_jobs_are_listed_changed_and_acted_on(
    api: AsyncApi, connection: asyncpg.Connection
) -> None:
    many = await api.enqueue_many(New("double", {"number": n}, {"tags": ["x"]}) for n in range(5))
    first = await api.list(tag="x", limit=3)
    rest = await api.list(tag="x", limit=3, after=first.after)
    assert [job.id for job in (*first.jobs, *rest.jobs)] == [each.id for each in reversed(many)]
    assert {each.state for each in (await api.states(many)).values()} == {"ready"}
    assert (await api.list(state=["ready", "running"], limit=1)).jobs[0].id == many[-1].id

    assert await api.cancel(many[0]) == "cancelled"
    with pytest.raises(JobCancelled):
        await api.wait(many[0])
    assert await api.retry(many[0]) == "ready"
    assert await api.delete(many[0]) == "deleted"
    tried = await api.act("cancel", filter={"tag": "x"}, dry_run=True)
    later = await api.enqueue("double", {"number": 9}, tags=["x"])
    done = await api.act("cancel", filter={"tag": "x"}, until=tried.until)
    assert (tried.matched, done.changed) == (4, 4)
    assert (await api.get(later)).state == "ready"

    failed = await dead(connection, 2)
    assert [job.id for job in (await api.dead_letters()).jobs] == failed[::-1]
    assert (await api.dead_summary()).groups[0].number == 2
    assert (await api.redrive(failed[0])).number == 1
    assert (await api.purge(task="broken")).number == 1
    assert (await api.send_event("paid", {"order": 7})) is not None


async def test_batches_and_workflows_are_watched(app: Penstock, api: AsyncApi) -> None:
    double = app.tasks.get("double")
    async with app.batch("b") as batch:
        await batch.enqueue_many([double.prepare(1), double.prepare(2)])

    assert (await api.get_batch(batch.id)).total == 2
    assert [each.id for each in (await api.batches(name="b")).batches] == [batch.id]
    async with worker_of(app, "default"):
        assert (await api.wait_batch(batch.id, timeout=20)).completed == 2
    assert await api.cancel_batch(batch.id) == 0
    assert (await api.workflows()).workflows == ()


async def test_api_client_raises_the_engines_errors(api: AsyncApi) -> None:
    with pytest.raises(JobNotFound, match="There is no job 4711") as missing:
        await api.get("4711")
    assert missing.value.job_id == "4711"
    job = await api.enqueue("double", {"number": 1}, idempotency_key="k")
    with pytest.raises(IdempotencyMismatch) as mismatch:
        await api.enqueue("double", {"number": 2}, idempotency_key="k")
    assert (mismatch.value.key, mismatch.value.job_id) == ("k", job.id)
    with pytest.raises(RequestRefused, match=r"args\.number") as refused:
        await api.enqueue("double", {"number": "x"})
    assert refused.value.status == 422
    assert list(refused.value.fields) == ["args.number"]
    with pytest.raises(WaitTimeout, match="No living worker serves the queue default"):
        await api.wait(job, timeout=0.1)


async def test_a_batch_that_is_waited_for_says_which_jobs_it_waits_for(
    app: Penstock, api: AsyncApi
) -> None:
    job = await api.enqueue("double", {"number": 1})
    async with app.batch() as batch:
        [added] = await batch.enqueue_many([app.tasks.get("double").prepare(number=1)])
    with pytest.raises(BatchTimeout) as late:
        await api.wait_batch(batch.id, timeout=0.1)
    assert f"Job {added.id} (double) is ready: No living worker serves" in str(late.value)
    for wrong in (-1, float("nan")):
        with pytest.raises(BadArgument, match="timeout"):
            await api.wait(job, timeout=wrong)
        with pytest.raises(BadArgument, match="timeout"):
            await api.wait_batch(batch.id, timeout=wrong)


async def test_a_watch_goes_on_where_a_connection_broke_off(
    app: Penstock, service: Service
) -> None:
    job = await app.enqueue(app.tasks.get("double"), 5)
    seen: list[str] = []

    async def watch(url: str) -> None:
        async with AsyncApi(url) as api:
            async for each in api.live("job", job.id, timeout=30):
                assert isinstance(each.state, JobNow)
                seen.append(each.state.state)

    async with serving(service) as url:
        watching = asyncio.create_task(watch(url))
        await until(lambda: seen)
    # The first server is gone; the watch goes on at the second, and is not told the same again.
    async with (
        service_of(app) as again,
        serving(again, port=httpx.URL(url).port or 0),
        worker_of(app, "default"),
    ):
        await watching

    assert seen.count("ready") == 1
    assert seen[-1] == "completed"


class _Scripted(httpx.AsyncBaseTransport):
    """Answers as it is told to, then as the service does."""

    def __init__(self, service: Service, *first: httpx.Response | Exception) -> None:
        self._first = list(first)
        self._then = httpx.ASGITransport(service.asgi)
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if not self._first:
            return await self._then.handle_async_request(request)
        answer = self._first.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def busy(kind: str = "busy") -> httpx.Response:
    return httpx.Response(
        503, json={"type": f"urn:penstock:{kind}", "title": "Unavailable"},
        headers={"retry-after": "0"},
    )  # fmt: skip


async def test_it_asks_again_where_that_is_safe_and_only_there(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_transport, "FIRST_PAUSE_S", 0.001)
    args = {"number": 1}

    async def tries_of(
        *first: httpx.Response | Exception, use: Callable[[AsyncApi], Any]
    ) -> tuple[int, Any]:
        transport = _Scripted(service, *first)
        async with httpx.AsyncClient(transport=transport) as http:
            try:
                found = await use(AsyncApi("http://localhost", http=http))
            except Exception as error:
                found = error
        return transport.requests, found

    def plain(api: AsyncApi) -> Any:
        return api.enqueue("double", args)

    def keyed(api: AsyncApi) -> Any:
        return api.enqueue("double", args, idempotency_key="k")

    lost, refused = httpx.ReadError("reset"), httpx.ConnectError("refused")
    assert (await tries_of(busy(), busy(), use=plain))[0] == 3
    assert (await tries_of(refused, use=plain))[0] == 2
    assert (await tries_of(busy("database-lost"), use=keyed))[0] == 2
    assert (await tries_of(lost, use=keyed))[0] == 2
    tries, error = await tries_of(busy("database-lost"), use=plain)
    assert (tries, type(error)) == (1, RequestRefused)
    tries, error = await tries_of(lost, use=plain)
    assert (tries, type(error)) == (1, ServiceUnreachable)
    assert error.is_sent
    tries, error = await tries_of(*[refused] * 9, use=plain)
    assert (tries, error.is_sent) == (4, False)
    async with asked(service.asgi) as http:
        assert len((await http.get("/jobs")).json()["jobs"]) == 3


def test_the_blocking_client_has_every_call() -> None:
    calls = {name for name in vars(AsyncApi) | vars(ApiCalls) if not name.startswith("_")}

    assert calls - set(vars(Api)) == set()


def test_without_httpx_the_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("penstock.api")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[client\]' in a clone"):
        importlib.import_module("penstock.api")
