"""A scene: a database with a journal, the processes that work on it, and what they leave behind."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from penstock import Penstock, Request
from tests.chaos.app import make_app
from tests.chaos.checker import Verdict, check
from tests.chaos.evidence import gather
from tests.chaos.lines import Reader
from tests.chaos.process import Process
from tests.fixtures.database import connected
from tests.fixtures.until import until

JOURNAL = Path(__file__).with_name("journal.sql")
UNFINISHED = "SELECT count(*) FROM penstock.job"
# So long ago that a heartbeat which is still on its way does not renew it.
LET_LEASES_BE_OVER = """
UPDATE penstock.lease SET expires_at = clock_timestamp() - interval '1 hour'
WHERE worker = ANY ($1) AND expires_at > clock_timestamp()
"""


class Scene:
    """One test's stage. Everything that it starts ends with it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.crashes = 0
        self._calm_at: datetime | None = None
        self._processes: list[Process] = []
        self._log = Reader(folder / "log.jsonl")
        self._effects = Reader(folder / "effects.jsonl")
        for name in ("gates", "ready"):
            (folder / name).mkdir()

    async def install_journal(self) -> None:
        async with connected(self.url) as connection:
            await connection.execute("SET synchronous_commit = on")
            await connection.execute(JOURNAL.read_text())

    # Who is there

    def worker(self, name: str, **settings: Any) -> Process:
        """Start a worker process; `settings` are those of tests.chaos.worker."""
        return self._start("tests.chaos.worker", name, settings)

    def enqueuer(self, name: str, **settings: Any) -> Process:
        """Start an enqueuing process; `settings` are those of tests.chaos.enqueuer."""
        return self._start("tests.chaos.enqueuer", name, settings)

    def _start(self, module: str, name: str, settings: dict[str, Any]) -> Process:
        common = {"url": self.url, "name": name, "folder": str(self.folder)}
        process = Process(module, common | settings)
        self._processes.append(process)
        return process

    def end(self) -> None:
        """Kill whatever still runs."""
        for process in self._processes:
            process.kill()

    async def kill(self, victim: Process) -> None:
        """Kill a worker."""
        victim.kill()
        await self.bury()

    async def deaths(self, count: int) -> None:
        """Wait until so many processes have died."""

        def enough() -> bool:
            return sum(not process.is_running for process in self._processes) >= count

        await until(enough, what=f"{count} deaths")
        await self.bury()

    async def end_lease(self, worker: Process) -> None:
        """Let a lease be over that its worker renews no more."""
        await self.value(LET_LEASES_BE_OVER, [worker.name])

    async def bury(self) -> None:
        """Let the leases of the dead be over, as they would be in time.

        So those of the living can be long, and no slow machine makes them lose theirs.
        """
        dead = [process.name for process in self._processes if not process.is_running]
        await self.value(LET_LEASES_BE_OVER, dead)

    # What the test does

    @asynccontextmanager
    async def app(self, url: str | None = None) -> AsyncIterator[Penstock]:
        """A client in the test's own process, with its log."""
        async with make_app(url or self.url, "test", self.folder) as app:
            yield app

    async def enqueue(self, task: str, *args: Any, count: int = 1) -> list[int]:
        async with self.app() as app:
            enqueued = await app.enqueue_many(requests(app, task, *args, count=count))
        return [int(each.id) for each in enqueued]

    def open_gate(self, name: str) -> None:
        (self.folder / "gates" / name).touch()

    def close_gate(self, name: str) -> None:
        (self.folder / "gates" / name).unlink()

    async def value(self, sql: str, *args: Any) -> Any:
        async with connected(self.url) as connection:
            return await connection.fetchval(sql, *args)

    async def row(self, job: int) -> asyncpg.Record:
        async with connected(self.url) as connection:
            row = await connection.fetchrow("SELECT * FROM penstock.job_all WHERE id = $1", job)
        assert row is not None
        return row

    async def settled(self, job: int) -> None:
        """Wait until one job is in a final state."""
        ended = "SELECT true FROM penstock.job_history WHERE id = $1"
        await until(lambda: self.value(ended, job), what=f"job {job} to end")

    async def done(self, count: int, timeout: float = 60.0) -> None:
        """Wait until handlers have come to their end so many times."""

        def enough() -> bool:
            for process in self._processes:
                assert process.code in (None, 0, -9), f"{process.name}: {process.words}"
            return self.done_so_far() >= count

        await until(enough, timeout, what=f"{count} handlers to be done")

    def done_so_far(self) -> int:
        return sum(effect["what"] == "done" for effect in self._effects.read())

    async def drained(self, timeout: float = 30.0) -> None:
        """Wait until no job is left to do; from here on there are no more faults."""
        async with connected(self.url) as connection:
            self._calm_at = await connection.fetchval("SELECT clock_timestamp()")

            async def nothing_left() -> bool:
                return bool(await connection.fetchval(UNFINISHED) == 0)

            await until(nothing_left, timeout, what="all jobs to end")

    # What is left behind

    def log(
        self, operation: str, process: str | None = None, **fields: Any
    ) -> list[dict[str, Any]]:
        """The lines of the clients' log that fit."""
        wanted = {"operation": operation} | fields | ({"process": process} if process else {})
        return _fitting(self._log.read(), wanted)

    def effects(self, **fields: Any) -> list[dict[str, Any]]:
        """The lines of the effects log that fit."""
        return _fitting(self._effects.read(), fields)

    async def effect(self, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
        """Wait for a line in the effects log."""
        [first, *_] = await until(lambda: self.effects(**fields), timeout, what=f"effect {fields}")
        return first

    async def logged(
        self, operation: str, process: str, count: int = 1, **fields: Any
    ) -> list[dict[str, Any]]:
        """Wait until so many lines of the clients' log fit."""

        def told() -> list[dict[str, Any]]:
            found = self.log(operation, process, **fields)
            return found if len(found) >= count else []

        return await until(told, what=f"{operation} {fields}")

    async def event(self, process: Process, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until a worker has told of something so many times."""
        return await self.logged("event", process.name, count, kind=kind)

    async def verdict(self, patience: float = 30.0) -> Verdict:
        """What the checker says about everything so far."""
        async with connected(self.url) as connection:
            evidence = await gather(connection, self.folder)
        evidence.crashes = self.crashes
        evidence.calm_at = self._calm_at
        evidence.patience = patience
        return check(evidence)

    async def expect_promises_kept(self, patience: float = 30.0) -> Verdict:
        verdict = await self.verdict(patience)
        assert not verdict.violations, f"\n{verdict}\n{self.words()}"
        return verdict

    def words(self) -> str:
        """The last of what each process said, for a test that fails."""
        return "\n".join(
            f"--- {process.name}\n{process.words[-2000:]}" for process in self._processes
        )


def requests(
    app: Penstock, task: str, *args: Any, count: int = 1, keys: str | None = None
) -> Sequence[Request[Any]]:
    """Requests for one task; with `keys` each has an idempotency key that begins so."""
    found: Any = app.tasks.find(task)
    if keys is None:
        return [found.prepare(*args) for _ in range(count)]
    named = [f"{keys}:{number}" for number in range(count)]
    return [found.options(idempotency_key=key, subject=key).prepare(*args) for key in named]


def _fitting(all_lines: list[dict[str, Any]], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        line for line in all_lines if all(line.get(name) == value for name, value in wanted.items())
    ]
