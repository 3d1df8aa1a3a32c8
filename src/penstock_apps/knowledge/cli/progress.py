"""Run a worker while a command waits for documents, show its progress, and sum up the result."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self

from msgspec import Struct

from penstock import Penstock, Worker
from penstock.cli.errors import NotFound
from penstock.cli.output import Output, say, terminal
from penstock.cli.stalls import Stall, stalls_of
from penstock.wording import counted
from penstock_apps.knowledge import Knowledge, errors
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance.vector_index import BUILD_MESSAGE
from penstock_apps.knowledge.store.bases import Base

MAX_REASONS_SHOWN = 20


class FileProblem(Struct, frozen=True):
    """A file that was not ingested, and why."""

    path: str
    reason: str


class RenamedFolder(Struct, frozen=True):
    """A renamed folder: its old source and documents, and the command that removes them."""

    source: str
    folder: str
    documents: int
    remedy: str

    def __str__(self) -> str:
        what = counted(self.documents, "document")
        are = "is" if self.documents == 1 else "are"
        return (
            f"The folder {self.folder} no longer exists, and its files are in this folder now. "
            f"{what} from the old folder {are} still searched. To remove what came from there, "
            f"run `{self.remedy}`."
        )


class IngestSummary(Struct, frozen=True, kw_only=True):
    """The result of an ingest: counts, duration and problems."""

    batch: str | None
    total: int
    completed: int
    failed: int
    skipped: int
    unchanged: int
    chunks: int
    embedded: int
    seconds: float
    errors: tuple[FileProblem, ...]
    pending: int = 0
    # Documents whose files are gone: those that stay, and those that were pruned.
    gone: int = 0
    removed: int | None = None
    # Links that were left out because they lead out of their folders.
    leading_out: int = 0
    renamed: tuple[RenamedFolder, ...] = ()
    noun: str = "file"
    skips: tuple[FileProblem, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """Return the JSON that the command prints."""
        more: dict[str, Any] = {
            "pending": self.pending or None,
            "gone": self.gone or None,
            "removed": self.removed,
            "leading_out": self.leading_out or None,
            "renamed": self.renamed or None,
        }
        return {
            "batch": self.batch,
            "total": self.total,
            "completed": self.completed,
            "failed": self.failed,
            "skipped": self.skipped,
            "unchanged": self.unchanged,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "seconds": self.seconds,
            "errors": self.errors,
        } | {name: value for name, value in more.items() if value is not None}

    def __str__(self) -> str:
        counts = {
            "went in": self.completed,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "failed": self.failed,
            "removed": self.removed,
            "still to come": self.pending,
        }
        parts = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
        files = counted(self.total, self.noun) if self.total else f"No {self.noun}s"
        lines = [f"{files}: {parts or 'nothing to do'}."]
        if self.completed:
            lines.append(
                f"{counted(self.chunks, 'chunk')}, {self.embedded:,} of them newly embedded, in "
                f"{self.seconds:.1f} s."
            )
        if self.gone:
            those = "document has" if self.gone == 1 else "documents have"
            lines.append(f"{self.gone:,} {those} no file any more: --prune deletes such documents.")
        lines += map(str, self.renamed)
        if self.leading_out:
            links = counted(self.leading_out, "link") + (
                " leads" if self.leading_out == 1 else " lead"
            )
            lines.append(f"{links} out of the folder: --follow-links includes their files.")
        for title, some in (("Failed", self.errors), ("Skipped now", self.skips)):
            if some:
                lines += [
                    "",
                    f"{title}:",
                    *(f"  {each.path}: {each.reason}" for each in some[:MAX_REASONS_SHOWN]),
                ]
            if len(some) > MAX_REASONS_SHOWN:
                lines.append(f"  … and {len(some) - MAX_REASONS_SHOWN:,} more.")
        if self.pending:
            lines.append(
                "A worker ingests the rest: start `penstock up`, or run the same command again."
            )
        return "\n".join(lines)


LINE_INTERVAL_S = 5.0


class IngestScreen(Protocol):
    """Displays the progress of an ingest."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...

    def reading(self, done: int, total: int) -> None:
        """Show how many files were read."""

    def working(self, done: int, total: int, failed: int) -> None:
        """Show how many documents were ingested, and how many failed."""

    def indexing(self) -> None:
        """Show that all documents are ingested and the vector index is being built."""

    def removing(self, number: int) -> None:
        """Show that deleted documents are being removed."""

    def tell(self, line: str) -> None:
        """Print a line."""


def screen_for(output: Output) -> IngestScreen:
    """Return a display for stderr: progress bars on a terminal, else a line every few seconds."""
    console = terminal(stderr=True)
    return Bars(console) if console.is_terminal else Lines(quiet=output.as_json)


class Bars:
    """Shows two progress bars in a terminal."""

    def __init__(self, console: Any) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._looked = self._progress.add_task("Reading", total=None, rate="")
        self._brought = self._progress.add_task("Taking in", total=None, rate="", visible=False)
        self._began: float | None = None

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def reading(self, done: int, total: int) -> None:
        self._progress.update(self._looked, completed=done, total=total)

    def working(self, done: int, total: int, failed: int) -> None:
        self._began = self._began or time.monotonic()
        seconds = time.monotonic() - self._began
        rate = f"{done / seconds:.0f}/s" if done and seconds > 1 else ""
        if failed:
            rate += f"  {failed} failed"
        self._progress.update(self._brought, completed=done, total=total, rate=rate, visible=True)

    def indexing(self) -> None:
        self._progress.update(self._brought, description="Making the index")

    def removing(self, number: int) -> None:
        self._progress.update(self._looked, description=f"Removing {counted(number, 'document')}")

    def tell(self, line: str) -> None:
        self._progress.console.print(line, markup=False)


class Lines(AbstractContextManager[Any]):
    """Prints a line every few seconds, for logs."""

    def __init__(self, *, quiet: bool, every: float = LINE_INTERVAL_S) -> None:
        self._quiet = quiet
        self._every = every
        self._due = time.monotonic() + every

    def __exit__(self, *error: Any) -> None:
        return None

    def reading(self, done: int, total: int) -> None:
        self._print(f"{done:,} of {total:,} files read")

    def working(self, done: int, total: int, failed: int) -> None:
        line = f"{done:,} of {total:,} documents are ingested"
        self._print(line + (f", {failed:,} failed" if failed else ""))

    def indexing(self) -> None:
        self._print("all documents are ingested, and their index is being built")

    def removing(self, number: int) -> None:
        self._print(f"removing {counted(number, 'document')}")

    def tell(self, line: str) -> None:
        say(line)

    def _print(self, line: str) -> None:
        if not self._quiet and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._every
            say(line)


STALL_AFTER_S = 5.0
MAX_JOBS_EXAMINED = 1000


class StallWatch:
    """Prints the reasons why no document has completed for a while. It prints each reason once."""

    def __init__(
        self,
        library: Library,
        sources: Sequence[int],
        screen: IngestScreen,
        still: float = STALL_AFTER_S,
    ) -> None:
        self._library = library
        self._sources = sources
        self._screen = screen
        self._still = still
        self._left: int | None = None
        self._due = 0.0
        self._printed: set[str] = set()

    async def check(self, left: int) -> None:
        """Check for a stall, and print its reasons.

        During a stall, `left`, the number of unfinished documents, stays the same for a while.
        """
        if left != self._left:
            self._left, self._due = left, time.monotonic() + self._still
        elif time.monotonic() >= self._due:
            for each in await stalls_of(self._library.runtime.app, await self._jobs()):
                if each.kind not in self._printed:
                    self._printed.add(each.kind)
                    self._screen.tell(_describe_stall(each))
            self._due = time.monotonic() + self._still

    async def _jobs(self) -> list[str]:
        runtime, tenant = self._library.runtime, self._library.tenant
        jobs: list[str] = []
        async with self._library.transaction() as on:
            for source in self._sources:
                unfinished = await runtime.documents.list_unfinished(
                    on, tenant, source, 0, MAX_JOBS_EXAMINED - len(jobs)
                )
                jobs += [job for job in unfinished.values() if job]
        return jobs


def _describe_stall(stall: Stall) -> str:
    if stall.kind == "no_worker":
        return (
            f"No living worker serves the queue {stall.queue}. Start one with `penstock up`, or "
            "run the same command without --no-work."
        )
    return stall.message


POLL_INTERVAL_S = 0.2
# What happens to unfinished documents when a command is interrupted.
RESUMABLE = "What has been ingested stays. Run the same command again to continue with the rest."
INTERRUPTED = f"Interrupted. {RESUMABLE}"
# A command does not wait for an index if its job has not started within this time.
MAX_WAIT_FOR_INDEX_START_S = 10.0
MAX_WAIT_FOR_INDEX_S = 1800.0


def worker_for(app: Penstock, knowledge: Knowledge, children: int | None) -> Worker:
    """Return a worker with `children` processes; by default two per processor, at least three."""
    number = children or max(3, 2 * (os.cpu_count() or 1))
    return app.worker(knowledge.queues(number), children=number)


async def wait_for_documents(
    library: Library,
    sources: Sequence[int],
    total: int,
    screen: IngestScreen,
    *,
    still: float = STALL_AFTER_S,
) -> None:
    """Wait until all documents of some sources have an outcome, whichever batch they are in.

    If none completes for `still` seconds, print why.
    """
    stall_watch = StallWatch(library, sources, screen, still)
    while True:
        counts = [await library.progress(source=each) for each in sources]
        left = sum(each.pending + each.processing for each in counts)
        screen.working(max(0, total - left), total, sum(each.failed for each in counts))
        if not left:
            return
        await stall_watch.check(left)
        await asyncio.sleep(POLL_INTERVAL_S)


async def wait_for_index(library: Library, base: Base, screen: IngestScreen) -> None:
    """Wait until a large base has its index.

    Give up if no worker starts to build the index, or if the build takes too long.
    """
    job = await library.request_index(base)
    start_deadline, deadline = (
        time.monotonic() + MAX_WAIT_FOR_INDEX_START_S,
        time.monotonic() + MAX_WAIT_FOR_INDEX_S,
    )
    while job is not None and time.monotonic() < start_deadline:
        screen.indexing()
        status = (await library.runtime.app.states([job])).get(job)
        if status is None or status.is_final:
            return
        if status.message == BUILD_MESSAGE and time.monotonic() < deadline:
            start_deadline = time.monotonic() + MAX_WAIT_FOR_INDEX_START_S
        await asyncio.sleep(POLL_INTERVAL_S)


class DeletionGuard:
    """Detects whether a base or some of its sources are deleted while a command runs."""

    def __init__(self, library: Library, base: int, name: str) -> None:
        self._library = library
        self._base = base
        self._name = name
        self._sources: dict[int, str] = {}

    def add(self, source: int, name: str) -> None:
        """Add a source to those that must not be deleted."""
        self._sources[source] = name

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Raise NotFound if the base or a source is deleted during the block."""
        try:
            yield
        except (errors.NotFound, errors.TenantInactive):
            await self._expect()
            raise
        await self._expect()

    async def _expect(self) -> None:
        runtime, tenant = self._library.runtime, self._library.tenant
        async with self._library.transaction() as on:
            if await runtime.bases.find(on, tenant, None, self._base) is None:
                # Deleting a tenant deletes all of its bases.
                if await runtime.tenants.is_deleted(on, tenant):
                    raise _deleted_meanwhile("tenant", tenant)
                raise _deleted_meanwhile("knowledge base", self._name)
            for source, name in self._sources.items():
                try:
                    await runtime.sources.get(on, tenant, source)
                except errors.NotFound:
                    raise _deleted_meanwhile("source", name) from None


def _deleted_meanwhile(what: str, name: str) -> NotFound:
    return NotFound(f"The {what} {name} was deleted meanwhile.", what=what, name=name)
