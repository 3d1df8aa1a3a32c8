"""Small uploads, whose outcome is waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.documents import Document

PAUSES: Final = (0.03, 0.25)
UNDER_WAY: Final = frozenset({"pending", "processing"})


async def is_inline(library: Library, files: int, size: int) -> bool:
    """Whether an upload is small enough to be waited for, and its tenant one of those who wait."""
    settings = library.shop.settings
    if not settings.inline or files > settings.inline_files or size > settings.inline_bytes:
        return False
    async with library.transaction() as on:
        own = (await library.shop.tenants.get(on, library.tenant)).settings.inline
    return share_of(library.tenant) < settings.inline_share if own is None else own


def share_of(tenant: str) -> float:
    """Where a tenant stands between 0 and 1: always at the same place."""
    return int.from_bytes(blake2b(tenant.encode(), digest_size=6).digest()) / 2**48


async def awaited(
    library: Library, source: int, paths: Sequence[str], stopping: asyncio.Event
) -> tuple[Sequence[Document], bool]:
    """Documents of a source, and whether all have ended: until then, within the limit of time."""
    until = time.monotonic() + library.shop.settings.inline_seconds
    pause, longest = PAUSES
    while True:
        async with library.transaction() as on:
            found = await library.shop.documents.at(on, library.tenant, source, paths)
        if not any(each.state in UNDER_WAY for each in found):
            return found, True
        if stopping.is_set() or time.monotonic() >= until:
            return found, False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pause, until - time.monotonic())):
                await stopping.wait()
        pause = min(pause * 1.5, longest)
