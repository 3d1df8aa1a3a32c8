"""Folders that have another name by now: what they had is still searched under the old one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path
from shlex import quote

from penstock_apps.knowledge.cli.options import ALONE
from penstock_apps.knowledge.cli.summary import Renamed
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.sources import Source

# What is looked at, at most: the newest sources of a base, and documents of each.
SOURCES = 1000
CANDIDATES = 100
DOCUMENTS = 1000


async def renamed(library: Library, base: Base, folders: Collection[Path]) -> list[Renamed]:
    """Sources whose folder is not there any more, and whose files are now in one of these.

    Only those: other folders that are not here may be those of another machine.
    """
    keys = {str(each) for each in folders}
    async with library.transaction() as on:
        found = await library.runtime.sources.list(on, library.tenant, base.id, None, SOURCES)
    files = [each for each in found if each.kind == "files" and each.key is not None]
    own = [each.id for each in files if each.key in keys]
    others = [each for each in files if each.key not in keys]
    gone = await asyncio.to_thread(_gone, others)
    if not gone or not own:
        return []
    async with library.transaction() as on:
        ids = [each.id for each in gone[:CANDIDATES]]
        copies = await library.runtime.sources.copies(on, library.tenant, ids, own, DOCUMENTS)
    return [
        Renamed(
            str(each.id),
            str(each.key),
            (await library.progress(source=each.id)).total,
            _removing(library, each),
        )
        for each in gone
        if each.id in copies
    ]


def _gone(sources: list[Source]) -> list[Source]:
    return [each for each in sources if Path(each.key or "").is_absolute() and _is_gone(each.key)]


def _is_gone(key: str | None) -> bool:
    return not os.path.lexists(key or "")


def _removing(library: Library, source: Source) -> str:
    whose = "" if library.tenant == ALONE else f" --tenant {quote(library.tenant)}"
    return f"penstock knowledge delete source {source.id}{whose}"
