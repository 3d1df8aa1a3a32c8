"""Documents whose jobs ended without saying so of them: killed, exhausted, cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from penstock import Penstock
from penstock.telemetry import JobFinished
from penstock_apps.knowledge.pipeline.reasons import outcome_of
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.schema import schema_of
from penstock_apps.knowledge.settings import Settings
from penstock_apps.knowledge.sql import statement

LOOKED_AT_ONCE = 500

logger = logging.getLogger("penstock.knowledge")


async def reconcile(runtime: KnowledgeRuntime, tenant: str, batch: str) -> None:
    """Say of the documents of a batch what came of their jobs."""
    while True:
        async with runtime.tables.of(tenant) as on:
            left = await runtime.documents.unsettled(on, tenant, batch, LOOKED_AT_ONCE)
        if not await settle(runtime, tenant, left):
            return


async def settle(
    runtime: KnowledgeRuntime, tenant: str, jobs: Mapping[str, tuple[int, int]]
) -> int:
    """Say of documents what came of their jobs, if these have ended; of how many."""
    number = 0
    for job_id, (document, version) in jobs.items():
        job = await runtime.app.find(job_id)
        if job is None or job.is_final:
            state, reason, error = outcome_of(job, runtime.settings)
            async with runtime.tables.of(tenant) as on:
                await runtime.documents.end(on, tenant, document, version, state, reason, error)
            number += 1
    return number


class Watcher:
    """Tells a document at once that its job has failed here, whatever it died of.

    What is missed, by a worker that dies itself, is found at the batch's end or by a sweep.
    """

    def __init__(self, app: Penstock, tasks: frozenset[str], settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._tasks = tasks
        self._sql = statement("settle_job", schema_of(app.database.schema))
        self._under_way = set[asyncio.Task[None]]()

    def __call__(self, event: JobFinished) -> None:
        if event.task in self._tasks and event.state in ("failed", "cancelled"):
            telling = asyncio.get_running_loop().create_task(self._tell(event.job_id))
            self._under_way.add(telling)
            telling.add_done_callback(self._under_way.discard)

    async def _tell(self, job_id: str) -> None:
        try:
            job = await self._app.find(job_id)
            if job is not None and job.is_final:
                pool = await self._app.pool()
                await pool.execute(self._sql, job_id, *outcome_of(job, self._settings))
        except Exception:
            logger.warning("The end of job %s is told later.", job_id, exc_info=True)
