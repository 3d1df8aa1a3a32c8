"""The content of a document that is named by a URL."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from penstock import Context
from penstock.net.fetch import FetchedPage, FetchLimits, fetch
from penstock.net.guard import Allowed
from penstock.storage.names import object_name
from penstock_apps.knowledge.pipeline.document_job import Brought, Stale
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.settings import FETCH
from penstock_apps.knowledge.store.documents import Work

USER_AGENT: Final = "Penstock/1.0 (knowledge)"


class Fetching:
    """Fetches a page and stores it, before it is read like any other file."""

    def __init__(
        self, ctx: Context, runtime: KnowledgeRuntime, document: int, version: int
    ) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._tenant = ctx.job.tenant
        self._document = document
        self._version = version

    async def run(self, work: Work) -> Work | Brought:
        """The work with its file; or what is there already, if the page has not changed."""
        assert work.url is not None
        limits = FetchLimits(bytes=min(FetchLimits().bytes, self._runtime.settings.file_bytes))
        page = await fetch(
            work.url,
            self._runtime.folder,
            limits,
            allow=Allowed.of(FETCH),
            user_agent=USER_AGENT,
        )
        try:
            await self._store(page)
        finally:
            page.path.unlink(missing_ok=True)
        return await self._note(work, page)

    async def _store(self, page: FetchedPage) -> None:
        """Nobody removes the file while it has no document."""
        held = (page.digest, object_name(self._tenant, page.digest), page.bytes)
        async with self._runtime.tables.of(self._tenant) as on:
            await self._ctx.fence(on)
            await self._runtime.objects.hold(on, self._tenant, [held])
        await self._runtime.storage.put(self._tenant, page.path, page.digest)

    async def _note(self, work: Work, page: FetchedPage) -> Work | Brought:
        async with self._runtime.tables.of(self._tenant) as on:
            await self._ctx.fence(on)
            is_same = await self._runtime.documents.fetched(
                on,
                self._tenant,
                self._document,
                self._version,
                page.digest,
                page.bytes,
                page.content_type,
            )
            await self._runtime.objects.release(on, self._tenant, [page.digest])
            if is_same is None:
                raise Stale
            # An edition that is being built does not have it yet.
            if is_same and all(each.live for each in work.editions):
                chunks = await self._runtime.documents.confirm(
                    on, self._tenant, self._document, self._version
                )
                brought = Brought(chunks, 0)
                await self._ctx.complete(on, brought)
                return brought
        return replace(
            work,
            digest=page.digest,
            object=object_name(self._tenant, page.digest),
            size=page.bytes,
            media_type=page.content_type,
        )
