"""Children are used again, until they are worn."""

from penstock import Penstock
from tests.fixtures.until import until
from tests.isolation import jobs
from tests.isolation.worker import is_alive, isolating


async def test_child_is_replaced_after_its_limit_of_jobs_or_memory(app: Penstock) -> None:
    async with isolating(app, children=1):
        warm = [await app.wait(await app.enqueue(jobs.pid), timeout=30) for _ in range(3)]
        assert len(set(warm)) == 1
        leaking = await app.enqueue_many(jobs.leaks.prepare() for _ in range(12))
        leaky = [await app.wait(job, timeout=30) for job in leaking]
        assert 3 <= len(set(leaky)) <= 8
        wearing = await app.enqueue_many(jobs.wears_out.prepare() for _ in range(9))
        worn = [await app.wait(job, timeout=30) for job in wearing]
        assert sorted(worn.count(pid) for pid in set(worn))[-3:] == [3, 3, 3] or len(set(worn)) == 4
        left = {*warm, *leaky, *worn}
        await until(lambda: sum(map(is_alive, left)) <= 1, what="the worn to be gone")
    for job in (*leaking, *wearing):
        found = await app.get(job)
        assert (found.attempt, found.errors) == (1, ())


async def test_many_jobs_at_once_do_not_mind_that_children_leave(app: Penstock) -> None:
    async with isolating(app, children=3, slots=50):
        wearing = await app.enqueue_many(jobs.wears_out.prepare() for _ in range(45))
        worn = [await app.wait(job, timeout=30) for job in wearing]
    assert max(worn.count(pid) for pid in set(worn)) <= 3
    states = await app.states(wearing)
    assert {each.state for each in states.values()} == {"completed"}
