"""Files kept in a bucket."""

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

PART = 8 * 1024 * 1024
PARTS_AT_ONCE = 3
# Younger than this it will not be swept as an orphan before its document is written.
FRESH = timedelta(minutes=30)


async def keep(store: Remote, name: str, path: Path) -> None:
    """Send a file to its name, unless it is there; an old one is sent again and becomes young.

    To write over it does no harm: the name says what the content is.
    """
    if await _is_fresh(store, name):
        return
    with await asyncio.to_thread(path.open, "rb") as source:
        first = await asyncio.to_thread(source.read, PART)
        if len(first) < PART:
            if sha256(first).digest() != digest_of(name):
                raise FileChanged(path)
            await obstore.put_async(store, name, first, use_multipart=False)
            return
        async with aclosing(_parts(first, source, digest_of(name))) as parts:
            await obstore.put_async(
                store, name, parts, chunk_size=PART, max_concurrency=PARTS_AT_ONCE
            )


async def _is_fresh(store: Remote, name: str) -> bool:
    try:
        there = await obstore.head_async(store, name)
    except FileNotFoundError:
        return False  # Or its bucket is missing: the put will say that.
    return datetime.now(UTC) - there["last_modified"] < FRESH


async def _parts(first: bytes, source: BinaryIO, digest: bytes) -> AsyncGenerator[bytes, None]:
    """The file in parts. It ends in an error, and nothing is stored, if its content has changed."""
    hashed = sha256()
    part = first
    while part:
        await asyncio.to_thread(hashed.update, part)
        yield part
        part = await asyncio.to_thread(source.read, PART)
    if hashed.digest() != digest:
        raise FileChanged(source.name)
