"""The queues of knowledge: small files do not wait for large ones, nor tenants for each other."""

from __future__ import annotations

import pytest

from penstock import Context, Penstock
from penstock.testing import drain, for_tests
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.tasks import LARGE_QUEUE, SMALL_QUEUE


@pytest.mark.parametrize("children", [1, 2, 3, 8])
def test_one_large_file_leaves_a_slot_to_the_others(knowledge: Knowledge, children: int) -> None:
    assert knowledge.queues(children)[LARGE_QUEUE] == max(2, children // 2)


async def test_large_files_leave_a_child_process_to_small_ones(app: Penstock) -> None:
    async with app.worker():
        [worker] = await (await app.insights()).workers()
    assert worker.children_most is not None
    assert worker.children_most >= 3
    assert worker.queues[LARGE_QUEUE] < worker.children_most == worker.queues[SMALL_QUEUE]


async def test_one_who_wants_a_single_child_process_has_one(app: Penstock) -> None:
    async with app.worker(children=1):
        [worker] = await (await app.insights()).workers()
    assert worker.children_most == 1


async def test_tenants_take_turns_with_their_large_files(app: Penstock) -> None:
    for_tests(app)
    ran = []

    @app.task(queue=LARGE_QUEUE)
    async def read_large(ctx: Context) -> None:
        ran.append(ctx.job.tenant)

    for tenant in ("acme", "acme", "acme", "bolt"):
        await app.enqueue(read_large.options(tenant=tenant))
    await drain(app, slots=1)
    assert sorted(ran[:2]) == ["acme", "bolt"]
