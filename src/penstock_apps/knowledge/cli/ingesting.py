"""What `penstock ingest` does once it knows what is wanted."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from penstock import Penstock, Worker
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.cli.files import Found, Hashed, hashed
from penstock_apps.knowledge.cli.screen import Screen
from penstock_apps.knowledge.cli.summary import Summary, Trouble
from penstock_apps.knowledge.intake import Incoming, Intake
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import Held
from penstock_apps.knowledge.store.sources import NewSource
from penstock_apps.knowledge.workshop import Workshop

# Files that are read, stored and written down together.
AT_ONCE = 200
LOOK = 0.2

Folders = Mapping[Path, Sequence[Found]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of an ingest."""

    tenant: str
    base: str
    tags: tuple[str, ...] = ()
    works: bool = True
    waits: bool = True
    again: bool = False
    children: int | None = None


async def ingested(app: Penstock, folders: Folders, wish: Wish, screen: Screen) -> Summary:
    """Take in what is new or changed in these folders, and wait for it if that is wanted."""
    began = time.monotonic()
    knowledge = Knowledge(app)
    async with app, knowledge.opened() as shop:
        base = await Library(shop, wish.tenant).make_base(wish.base)
        ingesting = Ingesting(knowledge, shop, base, folders, wish, screen)
        with screen:
            await ingesting.run()
        return await ingesting.summary(time.monotonic() - began)


class Ingesting:
    """One run over folders: what it has looked at, and what it has found to do."""

    def __init__(
        self,
        knowledge: Knowledge,
        shop: Workshop,
        base: Base,
        folders: Folders,
        wish: Wish,
        screen: Screen,
    ) -> None:
        self._knowledge = knowledge
        self._app = shop.app
        self._library = Library(shop, wish.tenant)
        self._base = base
        self._folders = folders
        self._wish = wish
        self._screen = screen
        self._total = sum(map(len, folders.values()))
        self._looked = 0
        self._unchanged = 0
        self._skipped = 0
        self._intakes: dict[Path, Intake] = {}

    @property
    def _batch(self) -> str | None:
        return next((each.batch.id for each in self._intakes.values()), None)

    async def run(self) -> None:
        """Look at all files, bring in those that are not in as they are."""
        async with AsyncExitStack() as working:
            async with AsyncExitStack() as adding:
                for folder in self._folders:
                    await self._look_into(folder, adding, working)
            if self._batch is not None and self._wish.waits:
                await self._wait(self._batch)

    async def _look_into(
        self, folder: Path, adding: AsyncExitStack, working: AsyncExitStack
    ) -> None:
        held = await self._library.held(self._base, "files", str(folder))
        rest = iter(self._folders[folder])
        while some := list(islice(rest, AT_ONCE)):
            read = await asyncio.to_thread(hashed, some)
            changed = [each for each in read if self._is_wanted(each, held.get(each.path))]
            self._looked += len(read)
            self._screen.reading(self._looked, self._total)
            if changed:
                if not self._intakes:
                    # The work begins with the first files, while others are still looked at.
                    await self._begin(adding, working)
                wanted = await self._intakes[folder].add([_incoming(each) for each in changed])
                self._unchanged += len(changed) - len(wanted)

    def _is_wanted(self, file: Hashed, held: Held | None) -> bool:
        if held is None or held.state != "completed" or held.digest != file.digest:
            return True
        if not held.is_skipped:
            self._unchanged += 1
        elif not self._wish.again:
            self._skipped += 1
        return held.is_skipped and self._wish.again

    async def _begin(self, adding: AsyncExitStack, working: AsyncExitStack) -> None:
        sources = [
            NewSource("files", folder.name or str(folder), str(folder), self._wish.tags)
            for folder in self._folders
        ]
        opened = await adding.enter_async_context(self._library.intakes(self._base, sources))
        self._intakes = dict(zip(self._folders, opened, strict=True))
        if self._wish.works:
            await working.enter_async_context(self._worker())

    def _worker(self) -> Worker:
        children = self._wish.children or 2 * (os.cpu_count() or 1)
        return self._app.worker(self._knowledge.queues(children), children=children)

    async def _wait(self, batch: str) -> None:
        while True:
            status = await self._app.get_batch(batch)
            self._screen.working(status.done, status.total, status.failed)
            if status.is_finished:
                return
            await asyncio.sleep(LOOK)

    async def summary(self, seconds: float) -> Summary:
        """What came of it."""
        batch = self._batch
        documents = [] if batch is None else await self._library.documents_of(batch)
        ended = [each for each in documents if each.state == "completed"]
        completed = [each for each in ended if each.reason is None]
        failed = [each for each in documents if each.state in ("failed", "cancelled")]
        skipped = [
            Trouble(each.path, each.error or "") for each in ended if each.reason is not None
        ]
        return Summary(
            batch=batch,
            total=self._total,
            completed=len(completed),
            failed=len(failed),
            skipped=self._skipped + len(skipped),
            unchanged=self._unchanged,
            chunks=sum(each.chunks for each in completed),
            embedded=sum(each.embedded for each in completed),
            seconds=round(seconds, 3),
            pending=len(documents) - len(ended) - len(failed),
            errors=tuple(
                Trouble(each.path, each.error or each.reason or each.state) for each in failed
            ),
            skips=tuple(skipped),
        )


def _incoming(file: Hashed) -> Incoming:
    return Incoming(file.path, file.file, file.size, file.digest)
