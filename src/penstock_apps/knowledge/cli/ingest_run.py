"""Implement `penstock ingest` and `penstock knowledge retry`."""

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
    IngestScreen,
    IngestSummary,
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

# Files that are read, stored and written together.
FILES_PER_GROUP = 200
DELETED_MEANWHILE = "It was deleted meanwhile."


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """The options of an ingest."""

    tenant: str
    base: str
    tags: tuple[str, ...] = ()
    works_here: bool = True
    waits: bool = True
    again: bool = False
    prunes: bool = False
    children: int | None = None


async def run_ingest(
    app: Penstock, files: FileSearch, options: IngestOptions, screen: IngestScreen
) -> IngestSummary:
    """Ingest new and changed files, wait for them if `options.waits` is set, and sum up."""
    began = time.monotonic()
    knowledge = Knowledge(app)
    async with app, knowledge.opened() as runtime:
        base = await Library(runtime, options.tenant).make_base(options.base)
        ingesting = IngestRun(knowledge, runtime, base, files, options, screen)
        with explain_lost_database(app.database, RESUMABLE):
            async with ingesting.guard.watch():
                await ingesting.run()
        return await ingesting.summary(time.monotonic() - began)


class IngestRun:
    """One run over folders: it reads files, adds the new ones, waits, and prunes."""

    def __init__(
        self,
        knowledge: Knowledge,
        runtime: KnowledgeRuntime,
        base: Base,
        files: FileSearch,
        options: IngestOptions,
        screen: IngestScreen,
    ) -> None:
        self._knowledge = knowledge
        self._app = runtime.app
        self._library = Library(runtime, options.tenant)
        self._base = base
        self._files = files
        self._options = options
        self._screen = screen
        self._files_read = 0
        self._unchanged = 0
        self._skipped = 0
        self._problems = list(files.problems)
        self._intakes: dict[Path, Intake] = {}
        # The paths to wait for, by folder: those added now, and those already under way.
        self._expected: dict[Path, set[str]] = {folder: set() for folder in files.folders}
        self._pruning = Pruning(self._library, files)
        self._is_working = False
        self.guard = DeletionGuard(self._library, base.id, base.name)

    @property
    def _batch(self) -> str | None:
        return next((each.batch.id for each in self._intakes.values()), None)

    async def run(self) -> None:
        """Read all files, and ingest those that are new or changed."""
        async with AsyncExitStack() as working:
            async with AsyncExitStack() as adding:
                for folder, files in self._files.folders.items():
                    await self._read_folder(folder, list(files.values()), adding, working)
            if any(self._expected.values()) and self._options.waits:
                await self._begin_work(working)
                await self._wait()
                await wait_for_index(self._library, self._base, self._screen)
        # Prune last. Then the texts of renamed files are still there and need no new vectors.
        if self._options.prunes:
            if self._pruning.gone:
                self._screen.removing(self._pruning.gone)
            self._problems += await self._pruning.prune()
        if self._options.works_here:
            await self._library.finish_removals()

    async def _read_folder(
        self, folder: Path, files: list[FoundFile], adding: AsyncExitStack, working: AsyncExitStack
    ) -> None:
        held = await self._library.list_held(self._base, "files", str(folder))
        rest = iter(files)
        while group := list(islice(rest, FILES_PER_GROUP)):
            read, problems = await asyncio.to_thread(hash_files, group)
            self._problems += problems
            changed = [
                each for each in read if self._needs_ingest(folder, each, held.get(each.path))
            ]
            self._files_read += len(group)
            self._screen.reading(self._files_read, self._files.total)
            if changed:
                await self._add(folder, changed, adding, working)
        await self._pruning.compare(folder, held)

    def _needs_ingest(self, folder: Path, file: HashedFile, held: HeldDocument | None) -> bool:
        """Return whether to ingest a file. If not, count it, or note that a job is ingesting it."""
        options = self._options
        if held is None or held.digest != file.digest or held.has_failed:
            return True
        if options.tags and set(held.tags) != set(options.tags):
            return True
        if held.is_under_way:
            self._expected[folder].add(file.path)
            return False
        if held.is_skipped and options.again:
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
            # The worker starts with the first files, while others are still read.
            self._intakes = await self._open(adding)
            await self._begin_work(working)
        intake = self._intakes[folder]
        before = len(intake.changed)
        await intake.add([_incoming_file(each) for each in files])
        lost = {each.path for each in intake.changed[before:]}
        self._problems += [
            FileProblem(path, "It changed while it was read.") for path in sorted(lost)
        ]
        self._expected[folder] |= {each.path for each in files} - lost

    async def _open(self, adding: AsyncExitStack) -> dict[Path, Intake]:
        folders = list(self._files.folders)
        sources = [
            NewSource("files", folder.name or str(folder), str(folder)) for folder in folders
        ]
        intakes = self._library.intakes(self._base, sources, Labels(self._options.tags))
        opened = await adding.enter_async_context(intakes)
        for each in opened:
            self.guard.add(each.source.id, each.source.key or each.source.name)
        return dict(zip(folders, opened, strict=True))

    async def _begin_work(self, working: AsyncExitStack) -> None:
        if self._options.works_here and not self._is_working:
            self._is_working = True
            worker = worker_for(self._app, self._knowledge, self._options.children)
            await working.enter_async_context(worker)

    async def _wait(self) -> None:
        """Wait until all expected documents have an outcome, whichever batch they are in."""
        total = sum(map(len, self._expected.values()))
        sources = {
            source: str(folder)
            for folder, paths in self._expected.items()
            if paths
            and (source := await self._library.find_source(self._base, "files", str(folder)))
        }
        for source, folder in sources.items():
            self.guard.add(source, folder)
        await wait_for_documents(self._library, list(sources), total, self._screen)

    async def _read_outcomes(self) -> dict[tuple[Path, str], HeldDocument | None]:
        """Return the expected documents and their attachments, by folder and path.

        The value is None for a document that was deleted.
        """
        outcomes: dict[tuple[Path, str], HeldDocument | None] = {}
        for folder, paths in self._expected.items():
            if paths:
                held = await self._library.list_held(self._base, "files", str(folder))
                outcomes |= {(folder, path): held.get(path) for path in sorted(paths)}
                outcomes |= {
                    (folder, path): held[path] for path in sorted(_attachments_of(held, paths))
                }
        return outcomes

    async def summary(self, seconds: float) -> IngestSummary:
        """Sum up the run."""
        outcomes = await self._read_outcomes()
        ended = {key: held for key, held in outcomes.items() if held and not held.is_under_way}
        completed = [each for each in ended.values() if each.state == "completed"]
        errors = [
            *self._problems,
            *(
                FileProblem(path, DELETED_MEANWHILE)
                for (_, path), held in sorted(outcomes.items())
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
        return IngestSummary(
            batch=self._batch,
            total=self._files.total + sum(_is_attached(each) for each in outcomes.values()),
            completed=len(completed),
            failed=len(errors),
            skipped=self._skipped + len(skips),
            unchanged=self._unchanged,
            chunks=sum(each.chunks for each in completed),
            embedded=sum(each.embedded for each in completed),
            seconds=round(seconds, 3),
            pending=sum(held is not None and held.is_under_way for held in outcomes.values()),
            gone=0 if self._options.prunes else self._pruning.gone,
            removed=self._pruning.removed if self._options.prunes else None,
            renamed=tuple(
                await find_renamed_folders(self._library, self._base, self._files.folders)
            ),
            leading_out=len(self._files.outside_links),
            errors=tuple(errors),
            skips=tuple(skips),
        )


def _attachments_of(held: Mapping[str, HeldDocument], mails: Collection[str]) -> set[str]:
    """Return the paths of the attachments of these mails, including those of attached mails."""
    attached = set[str]()
    ids = {held[path].id for path in mails if path in held}
    while new := {path for path, each in held.items() if each.parent in ids} - attached:
        attached |= new
        ids |= {held[path].id for path in new}
    return attached


def _is_attached(held: HeldDocument | None) -> bool:
    return held is not None and held.parent is not None


def _incoming_file(file: HashedFile) -> Incoming:
    return Incoming(file.path, file.file, file.size, file.digest)


def retry_source(
    name: str, tenant: str, base: str | None, effort: Effort, where: DatabaseOptions, output: Output
) -> int:
    """Ingest the failed and cancelled documents of a source again; return how many failed again."""
    # The summary at the end lists what failed, with the reasons.
    logging.getLogger("penstock.worker").setLevel(logging.CRITICAL)
    with screen_for(output) as screen:
        retried = _retry(name, tenant, base, effort, where, screen)
        summary = run_interruptible(retried, INTERRUPTED)
    output.show(summary.as_document(), lambda: str(summary))
    return summary.failed


async def _retry(
    name: str,
    tenant: str,
    base: str | None,
    effort: Effort,
    where: DatabaseOptions,
    screen: IngestScreen,
) -> IngestSummary:
    began = time.monotonic()
    async with open_library(where, tenant) as (knowledge, library):
        names = NameResolver(library)
        within = None if base is None else await names.base(base)
        source = await names.source(name, within)
        base_of = await _base_of(library, source)
        guard = DeletionGuard(library, base_of.id, base_of.name)
        guard.add(source.id, source.key or source.name)
        async with guard.watch():
            before = await _list_held(library, source)
            batch = None
            if any(each.has_failed for each in before.values()):
                batch = (await library.retry(source.id)).batch
            # Wait also for what is already under way, perhaps from an earlier retry.
            paths = [path for path, each in before.items() if each.has_failed or each.is_under_way]
            if paths and effort.wait:
                with explain_lost_database(library.runtime.app.database, RESUMABLE):
                    async with AsyncExitStack() as stack:
                        if effort.works_here:
                            worker = worker_for(library.runtime.app, knowledge, effort.children)
                            await stack.enter_async_context(worker)
                        await wait_for_documents(library, [source.id], len(paths), screen)
                        await wait_for_index(library, base_of, screen)
        now = await _list_held(library, source)
    expected = {path: now[path] for path in sorted(paths) if path in now}
    return _summarize(batch, expected, time.monotonic() - began)


async def _base_of(library: Library, source: Source) -> Base:
    async with library.transaction() as on:
        base = await library.runtime.bases.find(on, library.tenant, None, source.base)
    if base is None:
        raise NotFound(f"The source {describe(source)} was deleted meanwhile.")
    return base


async def _list_held(library: Library, source: Source) -> dict[str, HeldDocument]:
    async with library.transaction() as on:
        return await library.runtime.documents.list_held(on, library.tenant, source.id)


def _summarize(
    batch: str | None, documents: Mapping[str, HeldDocument], seconds: float
) -> IngestSummary:
    completed = [each for each in documents.values() if each.state == "completed"]
    skipped = {path: each for path, each in documents.items() if each.is_skipped}
    failed = {path: each for path, each in documents.items() if each.has_failed}
    return IngestSummary(
        batch=batch,
        total=len(documents),
        completed=len(completed),
        failed=len(failed),
        skipped=len(skipped),
        unchanged=0,
        chunks=sum(each.chunks for each in completed),
        embedded=sum(each.embedded for each in completed),
        seconds=round(seconds, 3),
        pending=sum(each.is_under_way for each in documents.values()),
        errors=tuple(FileProblem(path, each.why) for path, each in failed.items()),
        skips=tuple(FileProblem(path, each.why) for path, each in skipped.items()),
        noun="document",
    )
