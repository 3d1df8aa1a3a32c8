"""What `penstock ingest` and `penstock knowledge retry` do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from penstock import Penstock
from penstock.cli.database import explain_lost_database
from penstock.cli.errors import NotFound
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output
from penstock.cli.process import run_interruptible
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.cli.files import (
    FileSearch,
    FoundFile,
    HashedFile,
    Pruning,
    find_renamed_folders,
    hash_files,
)
from penstock_apps.knowledge.cli.names import NameResolver, describe, open_library
from penstock_apps.knowledge.cli.options import Effort
from penstock_apps.knowledge.cli.progress import (
    INTERRUPTED,
    RESUMABLE,
    DeletionGuard,
    FileProblem,
    Screen,
    Summary,
    screen_for,
    wait_for_documents,
    wait_for_index,
    worker_for,
)
from penstock_apps.knowledge.ingest.intake import Incoming, Intake
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import HeldDocument, Labels
from penstock_apps.knowledge.store.sources import NewSource, Source

# Files that are read, stored and written down together.
FILES_PER_GROUP = 200
DELETED_MEANWHILE = "It was deleted meanwhile."


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What is wanted of an ingest."""

    tenant: str
    base: str
    tags: tuple[str, ...] = ()
    works: bool = True
    waits: bool = True
    again: bool = False
    prunes: bool = False
    children: int | None = None


async def run_ingest(
    app: Penstock, found: FileSearch, wish: IngestOptions, screen: Screen
) -> Summary:
    """Take in what is new or changed, and wait for it if that is wanted."""
    began = time.monotonic()
    knowledge = Knowledge(app)
    async with app, knowledge.opened() as runtime:
        base = await Library(runtime, wish.tenant).make_base(wish.base)
        ingesting = IngestRun(knowledge, runtime, base, found, wish, screen)
        with explain_lost_database(app.database, RESUMABLE):
            async with ingesting.needed.throughout():
                await ingesting.run()
        return await ingesting.summary(time.monotonic() - began)


class IngestRun:
    """One run over folders: what it has looked at, and what it has found to do."""

    def __init__(
        self,
        knowledge: Knowledge,
        runtime: KnowledgeRuntime,
        base: Base,
        found: FileSearch,
        wish: IngestOptions,
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
        self.needed = DeletionGuard(self._library, base.id, base.name)

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
                await wait_for_index(self._library, self._base, self._screen)
        # Last: what was only given another name has its texts embedded already.
        if self._wish.prunes:
            if self._pruning.gone:
                self._screen.removing(self._pruning.gone)
            self._troubles += await self._pruning.prune()
        if self._wish.works:
            await self._library.finish_removals()

    async def _look_into(
        self, folder: Path, files: list[FoundFile], adding: AsyncExitStack, working: AsyncExitStack
    ) -> None:
        held = await self._library.list_held(self._base, "files", str(folder))
        rest = iter(files)
        while some := list(islice(rest, FILES_PER_GROUP)):
            read, troubles = await asyncio.to_thread(hash_files, some)
            self._troubles += troubles
            changed = [each for each in read if self._is_wanted(folder, each, held.get(each.path))]
            self._looked += len(some)
            self._screen.reading(self._looked, self._found.total)
            if changed:
                await self._add(folder, changed, adding, working)
        await self._pruning.look(folder, held)

    def _is_wanted(self, folder: Path, file: HashedFile, held: HeldDocument | None) -> bool:
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
        files: list[HashedFile],
        adding: AsyncExitStack,
        working: AsyncExitStack,
    ) -> None:
        if not self._intakes:
            # The work begins with the first files, while others are still looked at.
            self._intakes = await self._open(adding)
            await self._begin_work(working)
        intake = self._intakes[folder]
        before = len(intake.changed)
        await intake.add([_incoming_file(each) for each in files])
        lost = {each.path for each in intake.changed[before:]}
        self._troubles += [
            FileProblem(path, "It changed while it was read.") for path in sorted(lost)
        ]
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
        await wait_for_documents(self._library, list(sources), total, self._screen)

    async def _came(self) -> dict[tuple[Path, str], HeldDocument | None]:
        """What has become of all that is awaited; None of what is deleted."""
        came: dict[tuple[Path, str], HeldDocument | None] = {}
        for folder, paths in self._awaited.items():
            if paths:
                held = await self._library.list_held(self._base, "files", str(folder))
                came |= {(folder, path): held.get(path) for path in sorted(paths)}
                came |= {
                    (folder, path): held[path] for path in sorted(_attachments_of(held, paths))
                }
        return came

    async def summary(self, seconds: float) -> Summary:
        """What came of it."""
        came = await self._came()
        ended = {key: held for key, held in came.items() if held and not held.is_under_way}
        went_in = [each for each in ended.values() if each.state == "completed"]
        errors = [
            *self._troubles,
            *(
                FileProblem(path, DELETED_MEANWHILE)
                for (_, path), held in sorted(came.items())
                if held is None
            ),
            *(
                FileProblem(path, each.why)
                for (_, path), each in sorted(ended.items())
                if each.has_failed
            ),
        ]
        skips = [
            FileProblem(path, each.why)
            for (_, path), each in sorted(ended.items())
            if each.is_skipped
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
            renamed=tuple(
                await find_renamed_folders(self._library, self._base, self._found.folders)
            ),
            leading_out=len(self._found.leading_out),
            errors=tuple(errors),
            skips=tuple(skips),
        )


def _attachments_of(held: Mapping[str, HeldDocument], mails: Collection[str]) -> set[str]:
    """What is attached to some mails, and to mails that are attached to them."""
    found = set[str]()
    ids = {held[path].id for path in mails if path in held}
    while new := {path for path, each in held.items() if each.parent in ids} - found:
        found |= new
        ids |= {held[path].id for path in new}
    return found


def _is_attached(held: HeldDocument | None) -> bool:
    return held is not None and held.parent is not None


def _incoming_file(file: HashedFile) -> Incoming:
    return Incoming(file.path, file.file, file.size, file.digest)


def retry_source(
    name: str, tenant: str, base: str | None, effort: Effort, where: DatabaseOptions, output: Output
) -> int:
    """Bring in once more what failed in a source; how many documents failed again."""
    # What fails is told at the end, with its reason.
    logging.getLogger("penstock.worker").setLevel(logging.CRITICAL)
    with screen_for(output) as screen:
        retried = _retry(name, tenant, base, effort, where, screen)
        summary = run_interruptible(retried, INTERRUPTED)
    output.show(summary.as_document(), lambda: str(summary))
    return summary.failed


async def _retry(
    name: str, tenant: str, base: str | None, effort: Effort, where: DatabaseOptions, screen: Screen
) -> Summary:
    began = time.monotonic()
    async with open_library(where, tenant) as (knowledge, library):
        naming = NameResolver(library)
        within = None if base is None else await naming.base(base)
        source = await naming.source(name, within)
        base_of = await _base_of(library, source)
        needed = DeletionGuard(library, base_of.id, base_of.name)
        needed.add(source.id, source.key or source.name)
        async with needed.throughout():
            before = await _list_held(library, source)
            batch = None
            if any(each.has_failed for each in before.values()):
                batch = (await library.retry(source.id)).batch
            # What was on its way already is waited for as well: from a retry before, perhaps.
            paths = [path for path, each in before.items() if each.has_failed or each.is_under_way]
            if paths and effort.wait:
                with explain_lost_database(library.runtime.app.database, RESUMABLE):
                    async with AsyncExitStack() as stack:
                        if effort.works:
                            worker = worker_for(library.runtime.app, knowledge, effort.children)
                            await stack.enter_async_context(worker)
                        await wait_for_documents(library, [source.id], len(paths), screen)
                        await wait_for_index(library, base_of, screen)
        now = await _list_held(library, source)
    awaited = {path: now[path] for path in sorted(paths) if path in now}
    return _summarize(batch, awaited, time.monotonic() - began)


async def _base_of(library: Library, source: Source) -> Base:
    async with library.transaction() as on:
        found = await library.runtime.bases.find(on, library.tenant, None, source.base)
    if found is None:
        raise NotFound(f"The source {describe(source)} was deleted meanwhile.")
    return found


async def _list_held(library: Library, source: Source) -> dict[str, HeldDocument]:
    async with library.transaction() as on:
        return await library.runtime.documents.list_held(on, library.tenant, source.id)


def _summarize(batch: str | None, documents: Mapping[str, HeldDocument], seconds: float) -> Summary:
    went_in = [each for each in documents.values() if each.state == "completed"]
    skipped = {path: each for path, each in documents.items() if each.is_skipped}
    failed = {path: each for path, each in documents.items() if each.has_failed}
    return Summary(
        batch=batch,
        total=len(documents),
        completed=len(went_in),
        failed=len(failed),
        skipped=len(skipped),
        unchanged=0,
        chunks=sum(each.chunks for each in went_in),
        embedded=sum(each.embedded for each in went_in),
        seconds=round(seconds, 3),
        pending=sum(each.is_under_way for each in documents.values()),
        errors=tuple(FileProblem(path, each.why) for path, each in failed.items()),
        skips=tuple(FileProblem(path, each.why) for path, each in skipped.items()),
        noun="document",
    )
