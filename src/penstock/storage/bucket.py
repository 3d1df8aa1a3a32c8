"""Store files in a bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import obstore

from penstock.storage.errors import FileChanged
from penstock.storage.location import Remote
from penstock.storage.names import digest_of

PART_BYTES = 8 * 1024 * 1024
CONCURRENT_PARTS = 3
# The sweep of orphans leaves a file of this age alone long enough for its document to be written.
FRESH_AGE = timedelta(minutes=30)


async def store_file(store: Remote, name: str, path: Path) -> None:
    """Upload a file under this name, unless it was uploaded in the last half hour.

    An older file is uploaded again, because its new time keeps the sweep of orphans from deleting
    it. Overwriting does no harm, because the name is the hash of the content.
    """
    if await _is_fresh(store, name):
        return
    with await asyncio.to_thread(path.open, "rb") as source:
        first = await asyncio.to_thread(source.read, PART_BYTES)
        if len(first) < PART_BYTES:
            if sha256(first).digest() != digest_of(name):
                raise FileChanged(path)
            await obstore.put_async(store, name, first, use_multipart=False)
            return
        async with aclosing(_parts(first, source, digest_of(name))) as parts:
            await obstore.put_async(
                store, name, parts, chunk_size=PART_BYTES, max_concurrency=CONCURRENT_PARTS
            )


async def _is_fresh(store: Remote, name: str) -> bool:
    try:
        stored = await obstore.head_async(store, name)
    except FileNotFoundError:
        return False  # The error may also mean that the bucket is missing. The upload will say so.
    return datetime.now(UTC) - stored["last_modified"] < FRESH_AGE


async def _parts(first: bytes, source: BinaryIO, digest: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the file in parts. The first part is passed in, because it was read before.

    Raises `FileChanged` after the last part if the content has changed. The upload then fails, so
    nothing is stored.
    """
    hasher = sha256()
    part = first
    while part:
        await asyncio.to_thread(hasher.update, part)
        yield part
        part = await asyncio.to_thread(source.read, PART_BYTES)
    if hasher.digest() != digest:
        raise FileChanged(source.name)
