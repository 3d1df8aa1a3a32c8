"""What `penstock ingest` does once it knows what is wanted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from penstock import Penstock
from penstock.cli.opening import lost_midway
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.cli.files import Finding, Found, Hashed, hashed
from penstock_apps.knowledge.cli.meanwhile import Needed
from penstock_apps.knowledge.cli.pruning import Pruning
from penstock_apps.knowledge.cli.renamed import renamed
from penstock_apps.knowledge.cli.screen import Screen
from penstock_apps.knowledge.cli.summary import Summary, Trouble
from penstock_apps.knowledge.cli.working import (
    GOES_ON,
    until_ended,
    until_indexed,
    worker_for,
)
from penstock_apps.knowledge.intake import Incoming, Intake
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import Held, Labels
from penstock_apps.knowledge.store.sources import NewSource

# Files that are read, stored and written down together.
AT_ONCE = 200
GONE = "It was deleted meanwhile."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of an ingest."""

    tenant: str
    base: str
    tags: tuple[str, ...] = ()
    works: bool = True
    waits: bool = True
    again: bool = False
    prunes: bool = False
    children: int | None = None


async def ingested(app: Penstock, found: Finding, wish: Wish, screen: Screen) -> Summary:
    """Take in what is new or changed, and wait for it if that is wanted."""
    began = time.monotonic()
    knowledge = Knowledge(app)
    async with app, knowledge.opened() as runtime:
        base = await Library(runtime, wish.tenant).make_base(wish.base)
        ingesting = Ingesting(knowledge, runtime, base, found, wish, screen)
        with lost_midway(app.database, GOES_ON):
            async with ingesting.needed.throughout():
                await ingesting.run()
        return await ingesting.summary(time.monotonic() - began)


class Ingesting:
    """One run over folders: what it has looked at, and what it has found to do."""

    def __init__(
        self,
        knowledge: Knowledge,
        runtime: KnowledgeRuntime,
        base: Base,
        found: Finding,
        wish: Wish,
        screen: Screen,
    ) -> None:
        self._knowledge = knowledge
        self._app = runtime.app
        self._library = Library(runtime, wish.tenant)
        self._base = base
        self._found = found
        self._wish = wish
        self._screen = screen
        self._looked = 0
        self._unchanged = 0
        self._skipped = 0
        self._troubles = list(found.troubles)
        self._intakes: dict[Path, Intake] = {}
        # What comes in now, or was on its way already, by folder.
        self._awaited: dict[Path, set[str]] = {folder: set() for folder in found.folders}
        self._pruning = Pruning(self._library, found)
        self._is_working = False
        self.needed = Needed(self._library, base.id, base.name)

    @property
    def _batch(self) -> str | None:
        return next((each.batch.id for each in self._intakes.values()), None)

    async def run(self) -> None:
        """Look at all files, bring in those that are not in as they are."""
        async with AsyncExitStack() as working:
            async with AsyncExitStack() as adding:
                for folder, files in self._found.folders.items():
                    await self._look_into(folder, list(files.values()), adding, working)
            if any(self._awaited.values()) and self._wish.waits:
                await self._begin_work(working)
                await self._wait()
                await until_indexed(self._library, self._base, self._screen)
        # Last: what was only given another name has its texts embedded already.
        if self._wish.prunes:
            if self._pruning.gone:
                self._screen.removing(self._pruning.gone)
            self._troubles += await self._pruning.prune()
        if self._wish.works:
            await self._library.finish_removals()

    async def _look_into(
        self, folder: Path, files: list[Found], adding: AsyncExitStack, working: AsyncExitStack
    ) -> None:
        held = await self._library.held(self._base, "files", str(folder))
        rest = iter(files)
        while some := list(islice(rest, AT_ONCE)):
            read, troubles = await asyncio.to_thread(hashed, some)
            self._troubles += troubles
            changed = [each for each in read if self._is_wanted(folder, each, held.get(each.path))]
            self._looked += len(some)
            self._screen.reading(self._looked, self._found.total)
            if changed:
                await self._add(folder, changed, adding, working)
        await self._pruning.look(folder, held)

    def _is_wanted(self, folder: Path, file: Hashed, held: Held | None) -> bool:
        """Whether it has to be taken in; counts it if not."""
        wish = self._wish
        if held is None or held.digest != file.digest or held.has_failed:
            return True
        if wish.tags and set(held.tags) != set(wish.tags):
            return True
        if held.is_under_way:
            self._awaited[folder].add(file.path)
            return False
        if held.is_skipped and wish.again:
            return True
        if held.is_skipped:
            self._skipped += 1
        else:
            self._unchanged += 1
        return False

    async def _add(
        self,
        folder: Path,
        files: list[Hashed],
        adding: AsyncExitStack,
        working: AsyncExitStack,
    ) -> None:
        if not self._intakes:
            # The work begins with the first files, while others are still looked at.
            self._intakes = await self._open(adding)
            await self._begin_work(working)
        intake = self._intakes[folder]
        before = len(intake.changed)
        await intake.add([_incoming(each) for each in files])
        lost = {each.path for each in intake.changed[before:]}
        self._troubles += [Trouble(path, "It changed while it was read.") for path in sorted(lost)]
        self._awaited[folder] |= {each.path for each in files} - lost

    async def _open(self, adding: AsyncExitStack) -> dict[Path, Intake]:
        folders = list(self._found.folders)
        sources = [
            NewSource("files", folder.name or str(folder), str(folder)) for folder in folders
        ]
        intakes = self._library.intakes(self._base, sources, Labels(self._wish.tags))
        opened = await adding.enter_async_context(intakes)
        for each in opened:
            self.needed.add(each.source.id, each.source.key or each.source.name)
        return dict(zip(folders, opened, strict=True))

    async def _begin_work(self, working: AsyncExitStack) -> None:
        if self._wish.works and not self._is_working:
            self._is_working = True
            worker = worker_for(self._app, self._knowledge, self._wish.children)
            await working.enter_async_context(worker)

    async def _wait(self) -> None:
        """Until all that comes in has ended, whichever batch it is in."""
        total = sum(map(len, self._awaited.values()))
        sources = {
            source: str(folder)
            for folder, paths in self._awaited.items()
            if paths
            and (source := await self._library.find_source(self._base, "files", str(folder)))
        }
        for source, folder in sources.items():
            self.needed.add(source, folder)
        await until_ended(self._library, list(sources), total, self._screen)

    async def _came(self) -> dict[tuple[Path, str], Held | None]:
        """What has become of all that is awaited; None of what is deleted."""
        came: dict[tuple[Path, str], Held | None] = {}
        for folder, paths in self._awaited.items():
            if paths:
                held = await self._library.held(self._base, "files", str(folder))
                came |= {(folder, path): held.get(path) for path in sorted(paths)}
                came |= {(folder, path): held[path] for path in sorted(_attached(held, paths))}
        return came

    async def summary(self, seconds: float) -> Summary:
        """What came of it."""
        came = await self._came()
        ended = {key: held for key, held in came.items() if held and not held.is_under_way}
        went_in = [each for each in ended.values() if each.state == "completed"]
        errors = [
            *self._troubles,
            *(Trouble(path, GONE) for (_, path), held in sorted(came.items()) if held is None),
            *(
                Trouble(path, each.why)
                for (_, path), each in sorted(ended.items())
                if each.has_failed
            ),
        ]
        skips = [
            Trouble(path, each.why) for (_, path), each in sorted(ended.items()) if each.is_skipped
        ]
        return Summary(
            batch=self._batch,
            total=self._found.total + sum(_is_attached(each) for each in came.values()),
            completed=len(went_in),
            failed=len(errors),
            skipped=self._skipped + len(skips),
            unchanged=self._unchanged,
            chunks=sum(each.chunks for each in went_in),
            embedded=sum(each.embedded for each in went_in),
            seconds=round(seconds, 3),
            pending=sum(held is not None and held.is_under_way for held in came.values()),
            gone=0 if self._wish.prunes else self._pruning.gone,
            removed=self._pruning.removed if self._wish.prunes else None,
            renamed=tuple(await renamed(self._library, self._base, self._found.folders)),
            leading_out=len(self._found.leading_out),
            errors=tuple(errors),
            skips=tuple(skips),
        )


def _attached(held: Mapping[str, Held], mails: Collection[str]) -> set[str]:
    """What is attached to some mails, and to mails that are attached to them."""
    found = set[str]()
    ids = {held[path].id for path in mails if path in held}
    while new := {path for path, each in held.items() if each.parent in ids} - found:
        found |= new
        ids |= {held[path].id for path in new}
    return found


def _is_attached(held: Held | None) -> bool:
    return held is not None and held.parent is not None


def _incoming(file: Hashed) -> Incoming:
    return Incoming(file.path, file.file, file.size, file.digest)
