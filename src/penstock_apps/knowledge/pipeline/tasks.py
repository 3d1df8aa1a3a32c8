"""The jobs of knowledge."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock import Cancel, Context, NotRetryable, Request, Snooze, Task, Unique, task
from penstock_apps.knowledge.errors import OverQuota, Skipped, Unreadable
from penstock_apps.knowledge.pipeline.attaching import Attaching, forget
from penstock_apps.knowledge.pipeline.document_job import Brought, DocumentJob, Retired, Stale
from penstock_apps.knowledge.pipeline.drafts import DraftJob, NotEmbedded
from penstock_apps.knowledge.pipeline.editions import build, rebuild, switch
from penstock_apps.knowledge.pipeline.embedding import EMBED, embed
from penstock_apps.knowledge.pipeline.expecting import batch_of, expect_id, tenant_of
from penstock_apps.knowledge.pipeline.fetching import Fetching
from penstock_apps.knowledge.pipeline.indexing import ask_for_index, index
from penstock_apps.knowledge.pipeline.parsing import Parsing, parsed_kind
from penstock_apps.knowledge.pipeline.reasons import told_of
from penstock_apps.knowledge.pipeline.reconciling import reconcile
from penstock_apps.knowledge.pipeline.removing import CARE, remove
from penstock_apps.knowledge.pipeline.sweeping import sweep, sweep_storage
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.settings import Settings
from penstock_apps.knowledge.store.counts import Counts
from penstock_apps.knowledge.store.documents import State, Wanted, Work

# Small files do not wait for large ones, and neither for those that look after all.
SMALL = "knowledge-small"
LARGE = "knowledge-large"
QUEUES = (SMALL, LARGE, EMBED, CARE)
# The newest version of a document is the one that is wanted.
NEWEST = Unique(key="knowledge:document:{document}", on_conflict="supersede")


@task(
    name="knowledge.ingest", queue=SMALL, resources=[KnowledgeRuntime], isolate=True, unique=NEWEST
)
async def ingest(ctx: Context, document: int, version: int) -> Any:
    """Bring a version of a document in."""
    return await _bring(ctx, document, version, is_small=True)


@task(
    name="knowledge.ingest_large",
    queue=LARGE,
    resources=[KnowledgeRuntime],
    isolate=True,
    unique=NEWEST,
)
async def ingest_large(ctx: Context, document: int, version: int) -> Any:
    """Bring a version of a large document in."""
    return await _bring(ctx, document, version, is_small=False)


def bring(
    settings: Settings,
    wanted: Wanted,
    *,
    tenant: str,
    priority: int = 0,
    requested_by: str | None = None,
    unique: Unique | None = NEWEST,
) -> Request[Any]:
    """The job that brings a version of a document in; its timeout grows with the file."""
    task = ingest_large if wanted.size > settings.large_bytes else ingest
    request: Request[Any] = task.options(
        tenant=tenant,
        subject=f"document:{wanted.id}",
        priority=priority,
        max_attempts=settings.attempts,
        # The size of a page that is not fetched yet is unknown: allow for the largest small file.
        timeout=settings.timeout(wanted.size or settings.large_bytes),
        requested_by=requested_by,
        unique=unique,
    ).prepare(wanted.id, wanted.version)
    return request


async def _bring(ctx: Context, document: int, version: int, *, is_small: bool) -> Any:
    runtime, tenant = ctx.resource(KnowledgeRuntime), ctx.job.tenant
    async with runtime.tables.for_one() as on:
        work = await runtime.documents.begin(on, tenant, document, version)
    if work is None:
        return await _unwanted(runtime, tenant)
    try:
        if work.url is not None and work.object is None:
            fetched = await Fetching(ctx, runtime, document, version).run(work)
            if isinstance(fetched, Brought):
                return fetched
            work = fetched
            if is_small and work.size > runtime.settings.large_bytes:
                return await _hand_on(ctx, document, version, work)
        parsed = parsed_kind(runtime, work)
        extracted = await Parsing(ctx, runtime, work, parsed).run() if parsed else None
        kind = DraftJob if _shares_calls(runtime, work) else DocumentJob
        request = partial(
            bring,
            runtime.settings,
            tenant=tenant,
            priority=ctx.job.priority,
            requested_by=ctx.job.requested_by,
        )
        attach = Attaching(ctx, runtime, document, version, work, request).run
        return await kind(ctx, runtime, document, version, work, extracted, attach=attach).run()
    except Stale:
        return await _unwanted(runtime, tenant)
    except Retired:
        return Snooze(0, "retired edition")
    except Skipped as error:
        await _end(ctx, document, version, "skipped", error.reason, str(error))
        return Brought(0, 0)
    except (Unreadable, NotEmbedded, OverQuota) as error:
        await _end(ctx, document, version, "failed", error.reason, str(error))
        raise
    except NotRetryable as error:
        await _end(ctx, document, version, "failed", "refused", told_of(error, ctx.job.id))
        raise


async def _hand_on(ctx: Context, document: int, version: int, work: Work) -> Brought:
    """Let a job of the other queue read a page that has turned out to be large."""
    runtime, tenant, job = ctx.resource(KnowledgeRuntime), ctx.job.tenant, ctx.job
    wanted = Wanted(document, work.path, version, work.size, job.priority)
    async with runtime.tables.of(tenant) as on:
        await ctx.fence(on)
        batch = await runtime.app.for_tenant(tenant).inside(on).batch_handle(job)
        # The version is the same, so this job must not cancel the one that hands it on.
        request = bring(
            runtime.settings,
            wanted,
            tenant=tenant,
            priority=job.priority,
            requested_by=job.requested_by,
            unique=None,
        )
        [added] = await batch.enqueue_many([request])
        await runtime.documents.note_jobs(
            on, tenant, [document], [added.id], job.requested_by, [job.priority]
        )
        brought = Brought(0, 0)
        await ctx.complete(on, brought)
    return brought


async def _unwanted(runtime: KnowledgeRuntime, tenant: str) -> Cancel:
    """Why a version is not brought in."""
    async with runtime.tables.of(tenant) as on:
        is_active = await runtime.tenants.is_active(on, tenant)
    return Cancel("superseded" if is_active else "tenant inactive")


def _shares_calls(runtime: KnowledgeRuntime, work: Work) -> bool:
    return any(runtime.embedder(each.recipe.embedding).shares_calls for each in work.editions)


async def _end(
    ctx: Context, document: int, version: int, state: State, reason: str, error: str
) -> None:
    """Note why a version has not gone in, unless the job is somebody else's by now."""
    runtime, tenant = ctx.resource(KnowledgeRuntime), ctx.job.tenant
    async with runtime.tables.of(tenant) as on:
        await ctx.fence(on)
        if state == "skipped":
            # What is found of it is of a content that it does not have any more.
            await runtime.drafts.lock(on, tenant, [document])
            await runtime.documents.withdraw(on, tenant, document, version)
            await forget(ctx, on, document)
        await runtime.documents.end(on, tenant, document, version, state, reason, error)


@task(name="knowledge.ended", queue=CARE, resources=[KnowledgeRuntime])
async def ended(ctx: Context, sources: list[int]) -> dict[int, Counts]:
    """All documents of a batch have ended: who wants to know is told here, once a batch."""
    runtime, tenant, batch = ctx.resource(KnowledgeRuntime), tenant_of(ctx), batch_of(ctx)
    sources = [expect_id(ctx, "source", each) for each in sources]
    await reconcile(runtime, tenant, batch)
    async with runtime.tables.of(tenant) as on:
        for source in sources:
            await runtime.sources.end(on, tenant, source, batch)
        counts = {each: await runtime.tallies.count(on, tenant, source=each) for each in sources}
        editions = await runtime.indexes.searched(on, tenant, sources)
    for edition in editions:
        await ask_for_index(runtime, tenant, edition)
    return counts


INGESTING = frozenset({ingest.name, ingest_large.name})
# They read files: in child processes, whose limits an installation sets.
READING = (ingest, ingest_large, rebuild)
OTHERS = (ended, remove, sweep, sweep_storage, build, switch, index)


def configured(settings: Settings) -> list[Task[..., Any]]:
    """The tasks as an app includes them, with what its installation has set."""
    isolate, retry = settings.apart, settings.retry
    reading = (each.configured(isolate=isolate, retry=retry) for each in READING)
    return [*reading, embed.configured(retry=settings.embed_retry), *OTHERS]
