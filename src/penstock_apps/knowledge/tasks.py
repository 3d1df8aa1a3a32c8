"""The tasks of knowledge."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock import Cancel, Context, NotRetryable, Request, Snooze, Task, Unique, task
from penstock_apps.knowledge.errors import OverQuota, Skipped, Unreadable
from penstock_apps.knowledge.ingest.attachments import AttachmentIntake, delete_attachments
from penstock_apps.knowledge.ingest.document_job import (
    DocumentJob,
    EditionRetired,
    Ingested,
    PageFetch,
    Superseded,
)
from penstock_apps.knowledge.ingest.drafts import DraftJob, NotEmbedded
from penstock_apps.knowledge.ingest.embed_calls import EMBED_QUEUE, embed
from penstock_apps.knowledge.ingest.finish import describe_error, reconcile
from penstock_apps.knowledge.ingest.llamaparse import LlamaParseRun, kind_for_llamaparse
from penstock_apps.knowledge.maintenance.delete import MAINTENANCE_QUEUE, remove
from penstock_apps.knowledge.maintenance.reembed import build, rebuild, switch
from penstock_apps.knowledge.maintenance.sweep import sweep, sweep_storage
from penstock_apps.knowledge.maintenance.vector_index import ask_for_index, index
from penstock_apps.knowledge.runtime import (
    KnowledgeRuntime,
    batch_of_callback,
    expect_id,
    tenant_of_job,
)
from penstock_apps.knowledge.settings import Settings
from penstock_apps.knowledge.store.counts import Counts
from penstock_apps.knowledge.store.documents import State, VersionToIngest, Work

# Small files do not wait for large ones, and neither kind waits for maintenance.
SMALL_QUEUE = "knowledge-small"
LARGE_QUEUE = "knowledge-large"
QUEUES = (SMALL_QUEUE, LARGE_QUEUE, EMBED_QUEUE, MAINTENANCE_QUEUE)
# A job for a newer version of a document supersedes the one for an older version.
NEWEST_VERSION = Unique(key="knowledge:document:{document}", on_conflict="supersede")


@task(
    name="knowledge.ingest",
    queue=SMALL_QUEUE,
    resources=[KnowledgeRuntime],
    isolate=True,
    unique=NEWEST_VERSION,
)
async def ingest(ctx: Context, document: int, version: int) -> Any:
    """Ingest a version of a document."""
    return await _ingest(ctx, document, version, is_small=True)


@task(
    name="knowledge.ingest_large",
    queue=LARGE_QUEUE,
    resources=[KnowledgeRuntime],
    isolate=True,
    unique=NEWEST_VERSION,
)
async def ingest_large(ctx: Context, document: int, version: int) -> Any:
    """Ingest a version of a large document."""
    return await _ingest(ctx, document, version, is_small=False)


def ingest_request(
    settings: Settings,
    version: VersionToIngest,
    *,
    tenant: str,
    priority: int = 0,
    requested_by: str | None = None,
    unique: Unique | None = NEWEST_VERSION,
) -> Request[Any]:
    """Return the job that ingests a version of a document. Its timeout grows with the file."""
    task = ingest_large if version.size > settings.large_bytes else ingest
    request: Request[Any] = task.options(
        tenant=tenant,
        subject=f"document:{version.id}",
        priority=priority,
        max_attempts=settings.attempts,
        # The size of a page is unknown before it is fetched: allow for the largest small file.
        timeout=settings.timeout(version.size or settings.large_bytes),
        requested_by=requested_by,
        unique=unique,
    ).prepare(version.id, version.version)
    return request


async def _ingest(ctx: Context, document: int, version: int, *, is_small: bool) -> Any:
    runtime, tenant = ctx.resource(KnowledgeRuntime), ctx.job.tenant
    async with runtime.tables.single_statement() as on:
        work = await runtime.documents.begin(on, tenant, document, version)
    if work is None:
        return await _cancel_reason(runtime, tenant)
    try:
        if work.url is not None and work.object is None:
            fetched = await PageFetch(ctx, runtime, document, version).run(work)
            if isinstance(fetched, Ingested):
                return fetched
            work = fetched
            if is_small and work.size > runtime.settings.large_bytes:
                return await _hand_to_large_queue(ctx, document, version, work)
        parsed = kind_for_llamaparse(runtime, work)
        extracted = await LlamaParseRun(ctx, runtime, work, parsed).run() if parsed else None
        kind = DraftJob if _shares_calls(runtime, work) else DocumentJob
        request = partial(
            ingest_request,
            runtime.settings,
            tenant=tenant,
            priority=ctx.job.priority,
            requested_by=ctx.job.requested_by,
        )
        attach = AttachmentIntake(ctx, runtime, document, version, work, request).run
        return await kind(ctx, runtime, document, version, work, extracted, attach=attach).run()
    except Superseded:
        return await _cancel_reason(runtime, tenant)
    except EditionRetired:
        return Snooze(0, "retired edition")
    except Skipped as error:
        await _record_outcome(ctx, document, version, "skipped", error.reason, str(error))
        return Ingested(0, 0)
    except (Unreadable, NotEmbedded, OverQuota) as error:
        await _record_outcome(ctx, document, version, "failed", error.reason, str(error))
        raise
    except NotRetryable as error:
        await _record_outcome(
            ctx, document, version, "failed", "refused", describe_error(error, ctx.job.id)
        )
        raise


async def _hand_to_large_queue(ctx: Context, document: int, version: int, work: Work) -> Ingested:
    """Enqueue another job for a fetched page, in the queue for large files, and end this job."""
    runtime, tenant, job = ctx.resource(KnowledgeRuntime), ctx.job.tenant, ctx.job
    to_ingest = VersionToIngest(document, work.path, version, work.size, job.priority)
    async with runtime.tables.transaction(tenant) as on:
        await ctx.fence(on)
        batch = await runtime.app.for_tenant(tenant).inside(on).batch_handle(job)
        # Both jobs are for the same version, so the new one must not supersede this one.
        request = ingest_request(
            runtime.settings,
            to_ingest,
            tenant=tenant,
            priority=job.priority,
            requested_by=job.requested_by,
            unique=None,
        )
        [added] = await batch.enqueue_many([request])
        await runtime.documents.note_jobs(
            on, tenant, [document], [added.id], job.requested_by, [job.priority]
        )
        ingested = Ingested(0, 0)
        await ctx.complete(on, ingested)
    return ingested


async def _cancel_reason(runtime: KnowledgeRuntime, tenant: str) -> Cancel:
    """Return why a version is not ingested: it was superseded, or its tenant is inactive."""
    async with runtime.tables.transaction(tenant) as on:
        is_active = await runtime.tenants.is_active(on, tenant)
    return Cancel("superseded" if is_active else "tenant inactive")


def _shares_calls(runtime: KnowledgeRuntime, work: Work) -> bool:
    return any(runtime.embedder(each.recipe.embedding).shares_calls for each in work.editions)


async def _record_outcome(
    ctx: Context, document: int, version: int, state: State, reason: str, error: str
) -> None:
    """Record why a version was not ingested, unless this attempt has lost its job."""
    runtime, tenant = ctx.resource(KnowledgeRuntime), ctx.job.tenant
    async with runtime.tables.transaction(tenant) as on:
        await ctx.fence(on)
        if state == "skipped":
            # Searches would still find the previous content, which the document no longer has.
            await runtime.drafts.lock(on, tenant, [document])
            await runtime.documents.withdraw(on, tenant, document, version)
            await delete_attachments(ctx, on, document)
        await runtime.documents.record_outcome(on, tenant, document, version, state, reason, error)


@task(name="knowledge.ended", queue=MAINTENANCE_QUEUE, resources=[KnowledgeRuntime])
async def ended(ctx: Context, sources: list[int]) -> dict[int, Counts]:
    """Record that all documents of a batch have ended, and return the counts of its sources.

    It is the callback of a batch, so it runs once for each batch.
    """
    runtime, tenant, batch = (
        ctx.resource(KnowledgeRuntime),
        tenant_of_job(ctx),
        batch_of_callback(ctx),
    )
    sources = [expect_id(ctx, "source", each) for each in sources]
    await reconcile(runtime, tenant, batch)
    async with runtime.tables.transaction(tenant) as on:
        for source in sources:
            await runtime.sources.end_batch(on, tenant, source, batch)
        counts = {each: await runtime.counters.count(on, tenant, source=each) for each in sources}
        editions = await runtime.indexes.find_searched_editions(on, tenant, sources)
    for edition in editions:
        await ask_for_index(runtime, tenant, edition)
    return counts


INGEST_TASK_NAMES = frozenset({ingest.name, ingest_large.name})
# These read files, so they run in child processes, whose limits are settings.
ISOLATED_TASKS = (ingest, ingest_large, rebuild)
OTHER_TASKS = (ended, remove, sweep, sweep_storage, build, switch, index)


def configured_tasks(settings: Settings) -> list[Task[..., Any]]:
    """Return the tasks with the limits and retries that this installation has set."""
    isolate, retry = settings.extract_process, settings.retry
    reading = (each.configured(isolate=isolate, retry=retry) for each in ISOLATED_TASKS)
    return [*reading, embed.configured(retry=settings.embed_retry), *OTHER_TASKS]
