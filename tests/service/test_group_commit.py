"""Single enqueues of the same moment share a statement, and nothing else."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from penstock import DatabaseLost, Penstock
from penstock.connect.tracing import Requests
from penstock.service.group_commit import GroupCommit
from penstock.tasks import Request
from tests.fixtures.worker import counted

who: ContextVar[str] = ContextVar("who")


@pytest.fixture
def group_commit(app: Penstock) -> GroupCommit:
    @app.task(name="greet")
    async def greet(name: str) -> None: ...

    return GroupCommit(lambda tenant: app if tenant is None else app.for_tenant(tenant))


def wanted(app: Penstock, number: int, **options: Any) -> list[Request[Any]]:
    task = app.tasks.get("greet").options(**options)
    return [task.prepare(str(n)) for n in range(number)]


async def test_those_that_come_while_one_is_stored_are_stored_together(
    app: Penstock, group_commit: GroupCommit
) -> None:
    statements = counted(app, "enqueue")

    made = await asyncio.gather(*(group_commit.enqueue(one, None) for one in wanted(app, 50)))

    assert len(statements) <= 2
    names = {job.id: job.args["name"] for job in (await app.list()).jobs}
    assert [names[each.id] for each in made] == [str(n) for n in range(50)]


async def test_one_that_is_refused_does_not_hurt_the_others(
    app: Penstock, group_commit: GroupCommit
) -> None:
    requests = wanted(app, 9)
    requests[4] = wanted(app, 1, tenant="else")[0]
    requests[7] = wanted(app, 1, tenant="other")[0]

    made = await asyncio.gather(
        *(group_commit.enqueue(one, "acme") for one in requests), return_exceptions=True
    )

    refused = [place for place, each in enumerate(made) if isinstance(each, Exception)]
    assert refused == [4, 7]
    assert {type(made[place]).__name__ for place in refused} == {"TenantMismatch"}
    assert "'else'" in str(made[4])
    assert len((await app.list(tenant="acme")).jobs) == 7


async def test_one_that_waits_for_a_key_holds_up_nobody(
    app: Penstock, group_commit: GroupCommit
) -> None:
    [keyed] = wanted(app, 1, idempotency_key="k")
    pool = await app.pool()
    async with pool.acquire() as connection, connection.transaction():
        first = await app.inside(connection).enqueue_many([keyed])
        waiting = asyncio.create_task(group_commit.enqueue(keyed, None))
        plain = await asyncio.gather(*(group_commit.enqueue(one, None) for one in wanted(app, 3)))
        assert len(plain) == 3
        assert not waiting.done()
    assert (await waiting).id == first[0].id


class _Following:
    """Writes who enqueues into the metadata, by the context in which that is done."""

    def __init__(self, requests: Requests = ()) -> None:
        meta = msgspec.json.encode({"who": who.get("nobody")}).decode()
        self.requests = [replace(one, options=replace(one.options, meta=meta)) for one in requests]

    def active(self) -> Self:
        return self

    @contextmanager
    def sending(self, requests: Requests) -> Iterator[Any]:
        yield _Following(requests)

    def stored(self, ids: Sequence[int]) -> None: ...


async def test_where_jobs_are_followed_each_keeps_its_own_trace(
    app: Penstock, group_commit: GroupCommit
) -> None:
    following: Any = _Following()
    app.trace_with(following)

    async def enqueue(place: int, request: Request[Any]) -> None:
        who.set(str(place))
        await group_commit.enqueue(request, None)

    await asyncio.gather(*(enqueue(*each) for each in enumerate(wanted(app, 9))))

    jobs = (await app.list()).jobs
    assert [job.meta["who"] for job in jobs] == [job.args["name"] for job in jobs]


async def test_lost_database_fails_all_enqueues_of_a_group(
    app: Penstock, group_commit: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    async def lost(requests: Any) -> Any:
        calls.append(len(requests))
        raise DatabaseLost("gone")

    monkeypatch.setattr(app, "enqueue_many", lost)

    made = await asyncio.gather(
        *(group_commit.enqueue(one, None) for one in wanted(app, 5)), return_exceptions=True
    )

    assert [type(each) for each in made] == [DatabaseLost] * 5
    assert calls == [5]


async def test_one_whose_caller_has_left_while_it_waited_is_not_stored(
    app: Penstock, group_commit: GroupCommit
) -> None:
    first, second, third = wanted(app, 3)
    under_way = asyncio.create_task(group_commit.enqueue(first, None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # its statement has begun
    left = asyncio.create_task(group_commit.enqueue(second, None))
    stays = asyncio.create_task(group_commit.enqueue(third, None))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(under_way, stays)
    await group_commit.wait_until_empty()

    assert sorted(job.args["name"] for job in (await app.list()).jobs) == ["0", "2"]


async def test_lost_database_is_a_503_with_retry_after(
    app: Penstock,
    group_commit: GroupCommit,
    http: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lost(requests: Any) -> Any:
        raise DatabaseLost("The database was lost.")

    monkeypatch.setattr(app, "enqueue_many", lost)

    answer = await http.post("/jobs", json={"task": "greet", "args": {"name": "A"}})

    assert (answer.status_code, answer.json()["type"]) == (503, "urn:penstock:database-lost")
    assert answer.headers["retry-after"] == "1"
