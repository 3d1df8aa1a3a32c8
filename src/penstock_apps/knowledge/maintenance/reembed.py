"""Change the settings of a base: build a new edition beside the live one, then switch to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from penstock import (
    BatchClosed,
    BatchNotFound,
    Cancel,
    Client,
    Context,
    NotRetryable,
    Snooze,
    task,
)
from penstock_apps.knowledge.ingest.document_job import (
    DocumentJob,
    EditionRetired,
    Ingested,
    Superseded,
)
from penstock_apps.knowledge.ingest.drafts import DraftJob
from penstock_apps.knowledge.ingest.llamaparse import kind_for_llamaparse
from penstock_apps.knowledge.maintenance.delete import MAINTENANCE_QUEUE, remove_edition
from penstock_apps.knowledge.maintenance.vector_index import RETRY_WHILE_LOCKED_S, ask_for_index
from penstock_apps.knowledge.runtime import (
    KnowledgeRuntime,
    batch_of_callback,
    expect_id,
    tenant_of_job,
)
from penstock_apps.knowledge.store.bases import Base, NewEdition
from penstock_apps.knowledge.store.tables import Connection

DOCUMENTS_PER_QUERY = 500
MAX_RETIRED_EDITIONS = 100
# If the index takes longer, the edition goes live without it.
MAX_WAIT_FOR_INDEX = timedelta(minutes=30)
# The delay until the next try while jobs add newer versions, which are in both editions.
RETRY_WHILE_DOCUMENTS_ARRIVE_S = 2.0


@task(name="knowledge.rebuild", queue="knowledge-small", resources=[KnowledgeRuntime], isolate=True)
async def rebuild(ctx: Context, document: int, version: int, edition: int) -> Ingested | Cancel:
    """Add a published document to an edition that is being built."""
    runtime, tenant = ctx.resource(KnowledgeRuntime), ctx.job.tenant
    async with runtime.tables.transaction(tenant) as on:
        work = await runtime.editions.find_work(on, tenant, document, version, edition)
        if work is None:
            return Cancel("superseded")
        extracted = None
        is_read_here = work.object is not None and kind_for_llamaparse(runtime, work) is None
        if not is_read_here or work.published != version:
            extracted = await runtime.editions.read_text(on, tenant, document, "text")
    shares = runtime.embedder(work.editions[0].recipe.embedding).shares_calls
    kind = DraftJob if shares else DocumentJob
    try:
        return await kind(ctx, runtime, document, version, work, extracted).run()
    except (Superseded, EditionRetired):
        return Cancel("superseded")


@task(
    name="knowledge.switch", queue=MAINTENANCE_QUEUE, resources=[KnowledgeRuntime], max_attempts=20
)
async def switch(ctx: Context, edition: int) -> str | Snooze:
    """Make an edition live after its batch has ended, or build the documents that it lacks."""
    runtime, tenant, batch = (
        ctx.resource(KnowledgeRuntime),
        tenant_of_job(ctx),
        batch_of_callback(ctx),
    )
    expect_id(ctx, "edition", edition)
    async with runtime.tables.transaction(tenant) as on:
        row = await runtime.editions.get(on, tenant, edition)
        if row is None:
            return "not wanted"
        base, state = row
        left = await runtime.editions.list_unbuilt(on, tenant, base, edition, 0, 1)
    if state == "building" and not left and await _awaits_index(ctx, edition):
        return Snooze(RETRY_WHILE_LOCKED_S, "its index is made")
    async with runtime.tables.transaction(tenant) as on:
        await runtime.editions.lock(on, base)
        row = await runtime.editions.get(on, tenant, edition)
        if row is None or row[1] == "retired":
            return "not wanted"
        left = await runtime.editions.list_unbuilt(
            on, tenant, base, edition, 0, DOCUMENTS_PER_QUERY
        )
        if not left and await runtime.editions.has_unfinished_documents(on, tenant, base, edition):
            return Snooze(RETRY_WHILE_DOCUMENTS_ARRIVE_S, "documents come in")
        if row[1] == "building" and not left:
            await runtime.bases.make_live(on, base, edition)
    if left:
        return await _build_the_rest(runtime, tenant, edition, batch, ctx.job.requested_by)
    await remove_retired(runtime, MAX_RETIRED_EDITIONS)
    return "live"


async def _awaits_index(ctx: Context, edition: int) -> bool:
    """Return whether to wait for the edition's index, since searches are slower without one.

    Enqueue the build of the index if the edition needs one.
    """
    if datetime.now(UTC) - ctx.job.created_at > MAX_WAIT_FOR_INDEX:
        return False
    return await ask_for_index(ctx.resource(KnowledgeRuntime), ctx.job.tenant, edition) is not None


async def _build_the_rest(
    runtime: KnowledgeRuntime, tenant: str, edition: int, batch: str, requested_by: str | None
) -> str:
    """Enqueue a build of the documents that the edition still lacks, and return its batch.

    If documents failed, record and return a message instead.
    """
    try:
        status = await runtime.app.get_batch(batch)
    except BatchNotFound as error:
        raise NotRetryable(str(error)) from error
    if status.failed:
        message = (
            f"{status.failed:,} of {status.total:,} documents could not be embedded anew. Batch "
            f"{batch} lists them. To try once more, change the settings again."
        )
        async with runtime.tables.transaction(tenant) as on:
            await runtime.editions.note_build(on, tenant, edition, None, message)
        return message
    async with runtime.tables.transaction(tenant) as on:
        client = runtime.app.for_tenant(tenant)
        return await enqueue_build(client, runtime, on, tenant, edition, requested_by)


@task(
    name="knowledge.build", queue=MAINTENANCE_QUEUE, resources=[KnowledgeRuntime], max_attempts=20
)
async def build(ctx: Context, edition: int, batch: str) -> int:
    """Enqueue jobs for all documents that an edition lacks, and return how many.

    Once these jobs have ended, `switch` makes the edition live.
    """
    runtime, tenant = ctx.resource(KnowledgeRuntime), tenant_of_job(ctx)
    expect_id(ctx, "edition", edition)
    async with runtime.tables.transaction(tenant) as on:
        row = await runtime.editions.get(on, tenant, edition)
    try:
        handle = await runtime.app.for_tenant(tenant).batch_handle(batch)
    except BatchNotFound as error:
        raise NotRetryable(str(error)) from error
    number = last = 0
    try:
        while row is not None:
            async with runtime.tables.transaction(tenant) as on:
                documents = await runtime.editions.list_unbuilt(
                    on, tenant, row[0], edition, last, DOCUMENTS_PER_QUERY
                )
            if not documents:
                break
            # Because of the key, a second run of this task adds no document twice.
            await handle.enqueue_many(
                rebuild.options(
                    tenant=tenant,
                    subject=f"document:{each.id}",
                    max_attempts=runtime.settings.attempts,
                    timeout=runtime.settings.timeout(each.size),
                    idempotency_key=f"knowledge:{batch}:{each.id}",
                    requested_by=ctx.job.requested_by,
                ).prepare(each.id, each.version, edition)
                for each in documents
            )
            number, last = number + len(documents), documents[-1].id
    except BatchClosed:
        return number
    await handle.close()
    return number


async def enqueue_build(
    client: Client,
    runtime: KnowledgeRuntime,
    on: Connection,
    tenant: str,
    edition: int,
    requested_by: str | None,
) -> str:
    """Enqueue the build of an edition in this transaction, and return its batch."""
    inside = client.inside(on)
    callback = switch.options(tenant=tenant, requested_by=requested_by).prepare(edition)
    batch = await inside.open_batch("knowledge edition", tenant=tenant, on_end=callback)
    job = build.options(tenant=tenant, requested_by=requested_by).prepare(edition, batch.id)
    await inside.enqueue_many([job])
    await runtime.editions.note_build(on, tenant, edition, batch.id, None)
    return batch.id


async def begin_rebuild(
    runtime: KnowledgeRuntime,
    client: Client,
    base: Base,
    new: NewEdition,
    requested_by: str | None = None,
) -> str:
    """Start to build a new edition of a base, and return the batch of the build."""
    async with runtime.tables.transaction(base.tenant) as on:
        await runtime.editions.lock(on, base.id)
        edition = await runtime.editions.begin_building(on, base.tenant, base.id, new)
        return await enqueue_build(client, runtime, on, base.tenant, edition, requested_by)


async def cancel_rebuild(runtime: KnowledgeRuntime, base: Base) -> None:
    """Keep the live edition, and retire the one that is being built."""
    async with runtime.tables.transaction(base.tenant) as on:
        await runtime.editions.lock(on, base.id)
        await runtime.editions.retire_building(on, base.tenant, base.id)


async def remove_retired(runtime: KnowledgeRuntime, limit: int) -> int:
    """Remove up to `limit` retired editions, and return how many."""
    async with runtime.tables.transaction_of_all() as on:
        editions = await runtime.editions.list_retired(on, limit)
    for tenant, edition in editions:
        await remove_edition(runtime, tenant, edition)
    return len(editions)
