"""What `penstock ingest` does once it knows what is wanted."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from penstock import BatchStatus, Penstock, Worker
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.cli.files import Found, Hashed, hashed
from penstock_apps.knowledge.cli.screen import Screen
from penstock_apps.knowledge.cli.summary import Summary, Trouble
from penstock_apps.knowledge.intake import Incoming, Intake
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.pipeline import tasks
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.sources import NewSource

# Files that are read, stored and written down together.
AT_ONCE = 200
LOOK = 0.2
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of an ingest."""

    tenant: str
    base: str
    tags: tuple[str, ...] = ()
    works: bool = True
    waits: bool = True
    children: int | None = None


class Ingesting:
    """Looks at files, takes in those that are new or changed, and waits for them."""

    def __init__(self, app: Penstock, wish: Wish) -> None:
        self._app = app
        self._wish = wish
        self._knowledge = Knowledge(app)

    async def run(self, found: Mapping[Path, Sequence[Found]], screen: Screen) -> Summary:
        """Take in what is new or changed in these folders."""
        began = time.monotonic()
        async with self._app, self._knowledge.opened() as shop:
            library = Library(shop, self._wish.tenant)
            base = await library.make_base(self._wish.base)
            total = sum(map(len, found.values()))
            with screen:
                async with AsyncExitStack() as working:
                    batch, unchanged = await self._take_in(library, base, found, screen, working)
                    ended = None
                    if batch is not None and self._wish.waits:
                        ended = await self._wait(batch, screen)
            seconds = time.monotonic() - began
            return await _summary(library, batch, ended, total, unchanged, seconds)

    async def _take_in(
        self,
        library: Library,
        base: Base,
        found: Mapping[Path, Sequence[Found]],
        screen: Screen,
        working: AsyncExitStack,
    ) -> tuple[str | None, int]:
        """The batch of what has to come in, if anything has; and how many files are in already."""
        total, looked, unchanged = sum(map(len, found.values())), 0, 0
        intakes: dict[Path, Intake] = {}
        async with AsyncExitStack() as open_intakes:
            for root in found:
                async for group, same in self._changed(library, base, root, found[root]):
                    looked += len(group) + same
                    unchanged += same
                    screen.reading(looked, total)
                    if not group:
                        continue
                    if not intakes:
                        # The work begins with the first files, while others are still read.
                        intakes = await self._intakes(library, base, found, open_intakes)
                        if self._wish.works:
                            await working.enter_async_context(self._worker())
                    wanted = await intakes[root].add([_incoming(each) for each in group])
                    unchanged += len(group) - len(wanted)
        return (next(iter(intakes.values())).batch.id if intakes else None), unchanged

    async def _changed(
        self, library: Library, base: Base, root: Path, files: Sequence[Found]
    ) -> AsyncIterator[tuple[list[Hashed], int]]:
        """The files that are not in as they are, some at a time, and how many beside them are."""
        held = await library.held(base, "files", str(root))
        rest = iter(files)
        while some := list(islice(rest, AT_ONCE)):
            read = await asyncio.to_thread(hashed, some)
            changed = [
                each
                for each in read
                if not (known := held.get(each.path))
                or not known.is_in
                or known.digest != each.digest
            ]
            yield changed, len(read) - len(changed)

    async def _intakes(
        self,
        library: Library,
        base: Base,
        roots: Mapping[Path, Sequence[Found]],
        stack: AsyncExitStack,
    ) -> dict[Path, Intake]:
        sources = [
            NewSource("files", root.name or str(root), str(root), self._wish.tags) for root in roots
        ]
        opened = await stack.enter_async_context(library.intakes(base, sources))
        return dict(zip(roots, opened, strict=True))

    def _worker(self) -> Worker:
        children = self._wish.children or 2 * (os.cpu_count() or 1)
        slots = dict.fromkeys(tasks.QUEUES, children)
        return self._app.worker(slots, children=children)

    async def _wait(self, batch: str, screen: Screen) -> BatchStatus:
        while True:
            status = await self._app.get_batch(batch)
            screen.working(status.done, status.total, status.failed)
            if status.is_finished:
                return status
            await asyncio.sleep(LOOK)


def _incoming(file: Hashed) -> Incoming:
    return Incoming(file.path, file.file, file.size, file.digest)


async def _summary(
    library: Library,
    batch: str | None,
    ended: BatchStatus | None,
    total: int,
    unchanged: int,
    seconds: float,
) -> Summary:
    documents = [] if batch is None else await library.documents_of(batch)
    skipped = [each for each in documents if each.state == "completed" and each.reason]
    completed = [each for each in documents if each.state == "completed" and not each.reason]
    failed = [each for each in documents if each.state in ("failed", "cancelled")]
    return Summary(
        batch=batch,
        total=total,
        completed=len(completed),
        failed=len(failed),
        skipped=len(skipped),
        unchanged=unchanged,
        chunks=sum(each.chunks for each in completed),
        embedded=sum(each.embedded for each in completed),
        seconds=round(seconds, 3),
        pending=len(documents) - len(completed) - len(skipped) - len(failed),
        errors=tuple(
            Trouble(each.path, each.error or each.reason or each.state) for each in failed
        ),
        skips=tuple(Trouble(each.path, each.error or "") for each in skipped),
    )
