"""What is seen of queues."""

import pytest

from penstock import Penstock
from penstock.insights import Count, Insights
from penstock.insights import insights as reading
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of


async def test_a_queue_shows_what_waits_in_it_by_state(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    mail = send.options(queue="mail")
    await app.enqueue_many([mail.prepare() for _ in range(3)])
    await app.enqueue_many([mail.options(delay=60).prepare() for _ in range(2)])
    await app.enqueue(send)
    found = {queue.name: queue for queue in await insights.queues()}
    assert set(found) == {"mail", "default"}
    assert (found["mail"].ready, found["mail"].scheduled) == (Count(3), Count(2))
    assert found["mail"].running == Count(0)
    waited = found["mail"].waited
    assert waited is not None
    assert 0 <= waited < 60
    assert found["default"].scheduled == Count(0)


async def test_a_long_queue_is_counted_only_so_far(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    await app.enqueue_many([send.prepare() for _ in range(12)])
    await app.enqueue_many([send.options(delay=60).prepare() for _ in range(12)])
    [queue] = await insights.queues(count_to=10)
    assert queue.ready == Count(10, is_exact=False)
    assert str(queue.ready) == "10+"
    assert not queue.scheduled.is_exact
    [queue] = await insights.queues(count_to=12)
    assert queue.ready == queue.scheduled == Count(12)


async def test_a_queue_shows_who_serves_it_and_with_how_many_slots(
    app: Penstock, insights: Insights
) -> None:
    async with (
        worker_of(app, {"mail": 5}, name="first"),
        worker_of(app, {"mail": 2, "documents": 1}, name="second"),
    ):
        found = await until(lambda: _served(insights, 2), what="both workers to have a lease")
    assert set(found["mail"].workers) == {"first", "second"}
    assert found["mail"].slots == 7
    assert found["documents"].workers == ("second",)


async def _served(insights: Insights, workers: int):
    found = {queue.name: queue for queue in await insights.queues()}
    return found if "mail" in found and len(found["mail"].workers) == workers else None


async def test_a_paused_queue_is_seen_though_nothing_is_in_it(
    app: Penstock, insights: Insights
) -> None:
    await app.pause("mail")
    [queue] = await insights.queues()
    assert (queue.name, queue.is_paused, queue.workers) == ("mail", True, ())


async def test_queues_beyond_the_limit_are_counted(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    names = [f"q{number:02}" for number in range(12)]
    await app.enqueue_many([send.options(queue=name).prepare() for name in names])
    page = await insights.queue_page(limit=5)
    assert [queue.name for queue in page.queues] == names[:5]
    assert page.left_out == Count(7)
    assert (await insights.queue_page(limit=12)).left_out == Count(0)
    assert not (await insights.queue_page(limit=5, among=8)).left_out.is_exact
    await app.pause("q11")
    page = await insights.queue_page(limit=5)
    assert page.queues[-1].name == "q11"
    assert page.queues[-1].ready == Count(1)
    assert page.left_out == Count(6)


async def test_overview_shows_the_busiest_queues_and_counts_the_rest(
    app: Penstock, insights: Insights, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def send() -> None: ...

    monkeypatch.setattr(reading, "MAX_OVERVIEW_QUEUES", 5)
    for number in range(4):
        await app.pause(f"a-paused-{number}")
    later = [f"b-scheduled-{number}" for number in range(4)]
    await app.enqueue_many([send.options(queue=name, delay=3600).prepare() for name in later])
    await app.enqueue_many([send.options(queue=f"c-ready-{n}").prepare() for n in range(3)])
    seen = await insights.overview()
    assert [queue.name for queue in seen.queues] == [
        *later[:2],
        *("c-ready-0", "c-ready-1", "c-ready-2"),
    ]
    assert seen.queues_left_out == Count(6)
    await app.enqueue_many([send.options(queue=f"d-ready-{n}").prepare() for n in range(4)])
    seen = await insights.overview()
    assert [queue.name for queue in seen.queues][-2:] == ["d-ready-0", "d-ready-1"]
    assert seen.queues_left_out == Count(10)


async def test_queues_that_workers_alone_know_do_not_fill_a_glance(
    app: Penstock, insights: Insights, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def send() -> None: ...

    monkeypatch.setattr(reading, "MAX_OVERVIEW_QUEUES", 2)
    await app.enqueue(send.options(queue="z"))
    async with worker_of(app, {f"a{number}": 1 for number in range(4)}):
        seen = await insights.overview()
    assert [queue.name for queue in seen.queues] == ["a0", "z"]
    assert seen.queues_left_out == Count(3)


async def test_queue_is_found_by_name_among_thousands(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    names = [f"q{number:04}" for number in range(1100)]
    await app.enqueue_many([send.options(queue=name).prepare() for name in names])
    queues = await insights.queues_named(["q1099", "unused"])
    assert [(name, queue.ready) for name, queue in queues.items()] == [
        ("q1099", Count(1)),
        ("unused", Count(0)),
    ]
    present = await app.present("queue", ["q1099"])
    assert present["q1099"].state.ready == Count(1)
