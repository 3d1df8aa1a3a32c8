"""Sources and documents as those see them who watch: `knowledge-source/42`, `document/42`."""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

import msgspec
from fastapi import Request
from msgspec.structs import replace
from starlette.responses import Response

from penstock import BatchStatus, Present
from penstock.app import Brought
from penstock.service.dependencies import wiring_of
from penstock.service.live.streams import stream
from penstock_apps.knowledge.http.answers import DocumentShown, SourceProgress
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.shelves import Connection
from penstock_apps.knowledge.store.watches import Watches
from penstock_apps.knowledge.workshop import Workshop

SOURCE: Final = "knowledge-source"
DOCUMENT: Final = "document"
ENDED: Final = frozenset({"completed", "skipped", "failed", "cancelled"})
EVENTS: Final = {"text/event-stream": {"schema": {"type": "string"}}}


def subjects(shop: Workshop) -> Mapping[str, Brought]:
    """What can be watched, for the service."""
    return {SOURCE: partial(_sources, shop), DOCUMENT: partial(_documents, shop)}


def wants_events(request: Request) -> bool:
    """Whether a client would rather be told again and again than once."""
    return "text/event-stream" in request.headers.get("accept", "")


async def watched(request: Request, library: Library, kind: str, id: int) -> Response:
    """News of a subject that is known to be the tenant's."""
    hub = wiring_of(request).hub
    # One who is not confined to a tenant is no other tenant either: all of them look together.
    tenant = library.tenant if library.confined else None
    seen = request.headers.get("last-event-id", "")
    return await stream(hub, tenant, hub.subject(f"{kind}/{id}"), seen, {})


async def _sources(shop: Workshop, tenant: str | None, ids: Sequence[str]) -> dict[str, Present]:
    async with _as(shop, tenant) as on:
        found = await Watches(shop.shelves).sources(on, tenant, [int(id) for id in ids])
    under_way = {each.batch for each in found if each.counts.state == "processing"} - {None}
    batches = await shop.app.present("batch", sorted(map(str, under_way))) if under_way else {}
    told = {}
    for each in found:
        batch = batches.get(str(each.batch))
        eta = cast(BatchStatus, batch.state).eta if batch else None
        progress = SourceProgress.of(
            each.counts,
            eta,
            source=str(each.id),
            name=each.name,
            batch=each.batch,
            requested_by=each.requested_by,
        )
        is_final = each.ended_at is not None and progress.state != "processing"
        told[str(each.id)] = _present(progress, replace(progress, eta=None), is_final)
    return told


async def _documents(shop: Workshop, tenant: str | None, ids: Sequence[str]) -> dict[str, Present]:
    async with _as(shop, tenant) as on:
        found = await Watches(shop.shelves).documents(on, tenant, [int(id) for id in ids])
    shown = {str(each.id): DocumentShown.of(each) for each in found}
    return {id: _present(each, each, each.state in ENDED) for id, each in shown.items()}


@asynccontextmanager
async def _as(shop: Workshop, tenant: str | None) -> AsyncIterator[Connection]:
    opening = shop.shelves.of_all() if tenant is None else shop.shelves.of(tenant, confined=True)
    async with opening as on:
        yield on


def _present(state: Any, facts: Any, is_final: bool) -> Present:
    """The version has a time, which does not fall, and a digest of what is news."""
    digest = zlib.crc32(msgspec.json.encode([facts, is_final]))
    version = f"{time.time_ns() // 1000}.0-{digest:08x}"
    return Present(version=version, state=state, is_final=is_final)
