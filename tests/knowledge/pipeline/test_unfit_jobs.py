"""A job that was enqueued by mistake fails for good at once: trying again cannot help."""

from typing import Any

import pytest

from penstock import Request
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance.delete import remove
from penstock_apps.knowledge.maintenance.reembed import build, switch
from penstock_apps.knowledge.tasks import ended
from tests.knowledge.scene import Scene

BEYOND = 2**63
NO_BATCH = "999999999"


async def expect_failed_for_good(scene: Scene, request: Request[Any]) -> None:
    [added] = await scene.app.enqueue_many([request])
    await scene.drain()
    job = await scene.app.get(added.id)
    assert (job.state, job.failures) == ("failed", 1), job.last_error
    assert job.last_error is not None
    assert job.last_error.type == "penstock.errors.NotRetryable"


@pytest.mark.parametrize(
    "request_",
    [
        remove.prepare("tenant", None),
        remove.prepare("document", 1),
        ended.options(meta={"batch": "1"}).prepare([1]),
        switch.options(meta={"batch": "1"}).prepare(1),
        build.prepare(1, "1"),
    ],
    ids=lambda each: str(each.task),
)
async def test_without_a_tenant(scene: Scene, request_: Request[Any]) -> None:
    await expect_failed_for_good(scene, request_)


@pytest.mark.parametrize(
    "request_",
    [
        remove.options(tenant="acme").prepare("document", None),
        remove.options(tenant="acme").prepare("source", -1),
        remove.options(tenant="acme").prepare("base", BEYOND),
        ended.options(tenant="acme").prepare([1]),
        ended.options(tenant="acme", meta={"batch": 1}).prepare([1]),
        ended.options(tenant="acme", meta={"batch": "1"}).prepare([BEYOND]),
        switch.options(tenant="acme").prepare(1),
        switch.options(tenant="acme", meta={"batch": "1"}).prepare(BEYOND),
        build.options(tenant="acme").prepare(1, NO_BATCH),
        build.options(tenant="acme").prepare(1, "no batch"),
        build.options(tenant="acme").prepare(BEYOND, "1"),
    ],
    ids=lambda each: f"{each.task} {each.args}",
)
async def test_with_what_it_cannot_use(scene: Scene, request_: Request[Any]) -> None:
    await expect_failed_for_good(scene, request_)


async def test_a_switch_whose_batch_is_not_there(scene: Scene, library: Library) -> None:
    await scene.bring(library, {"a.md": "Weirs hold water."})
    base = await library.base("handbook")
    await scene.rows("DELETE FROM k.passage")
    for batch in (NO_BATCH, "no batch"):
        request = switch.options(tenant="acme", meta={"batch": batch}).prepare(base.edition.id)
        await expect_failed_for_good(scene, request)
