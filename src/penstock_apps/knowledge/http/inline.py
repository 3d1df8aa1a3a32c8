"""Uploads that are waited for: small ones, and others where background processing is off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from penstock_apps.knowledge.intake import Receipt
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.documents import Document

PAUSES: Final = (0.03, 0.25)
UNDER_WAY: Final = frozenset({"pending", "processing"})


async def seconds_to_wait(library: Library, files: int | None, size: int) -> float:
    """How long an upload of so many files is waited for; None stands for more than a few."""
    settings = library.shop.settings
    async with library.transaction() as on:
        tenant = await library.shop.tenants.get(on, library.tenant)
    place = share_of(library.tenant)
    if not tenant.has_background(settings, place):
        return settings.wait_seconds
    is_small = files is not None and files <= settings.inline_files
    if not settings.inline or not is_small or size > settings.inline_bytes:
        return 0.0
    own = tenant.settings.inline
    is_inline = place < settings.inline_share if own is None else own
    return settings.inline_seconds if is_inline else 0.0


def share_of(tenant: str) -> float:
    """Where a tenant stands between 0 and 1: always at the same place."""
    return int.from_bytes(blake2b(tenant.encode(), digest_size=6).digest()) / 2**48


async def documents_awaited(
    library: Library, source: int, paths: Sequence[str], seconds: float, stopping: asyncio.Event
) -> tuple[Sequence[Document], bool]:
    """Documents of a source, and whether all have ended: until then, within the limit of time."""
    found: Sequence[Document] = ()

    async def ended() -> bool:
        nonlocal found
        async with library.transaction() as on:
            found = await library.shop.documents.at(on, library.tenant, source, paths)
        return not any(each.state in UNDER_WAY for each in found)

    is_over = await _waited(ended, seconds, stopping)
    return found, is_over


async def receipt_awaited(
    library: Library, receipt: Receipt, seconds: float, stopping: asyncio.Event
) -> bool:
    """Whether all documents of an upload have ended, within the limit of time.

    Those that were on their way by another batch have ended with all others of their source.
    """

    async def ended() -> bool:
        if (await library.client.get_batch(receipt.batch)).pending:
            return False
        if not receipt.pending:
            return True
        return (await library.progress(source=receipt.source)).state != "processing"

    return await _waited(ended, seconds, stopping)


async def _waited(
    ended: Callable[[], Awaitable[bool]], seconds: float, stopping: asyncio.Event
) -> bool:
    """Look until it has ended, the time is over, or the service stops; whether it has ended."""
    until = time.monotonic() + seconds
    pause, longest = PAUSES
    while True:
        if await ended():
            return True
        if stopping.is_set() or time.monotonic() >= until:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pause, until - time.monotonic())):
                await stopping.wait()
        pause = min(pause * 1.5, longest)
