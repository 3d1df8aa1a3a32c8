"""Awa: a core in Rust that calls handlers in Python."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

from awa import AsyncClient, Job

from benchmarks.peers.peer import Facts, Promises, Settings
from benchmarks.peers.runs import Runs

FACTS = Facts(
    name="Awa",
    package="awa-pg",
    home="https://github.com/hardbyte/awa",
    jobs=40_000,
    settings={"max_workers": 1024, "claim_batch_size": 512},
    tried=(
        {"max_workers": 256},
        {"max_workers": 512},
        {"max_workers": 2048, "claim_batch_size": 1024},
        {"max_workers": 4096, "claim_batch_size": 2048},
        {"claim_batch_size": 1024},
    ),
    reasons=(
        "`max_workers` 1,024 with claims of 512, from its notes on benchmarking: handlers hold "
        "their place until their completion is durable, and four writers of completions are used.",
        "`deadline_duration_ms` 0: claims are then written in its compact form.",
        "Queue storage, the engine of new installations, with `enqueue_many_copy` in bulk.",
        "20 connections; its default is 10.",
    ),
    promises=Promises(
        core="Rust",
        claim="up to `claim_batch_size` jobs, durable",
        completion="in batches of up to 512 or after 1 ms, durable; a job keeps its place so long",
        history="kept, in compact form, until its ring of segments has come round",
        fence="the number of the claim",
        liveness="a heartbeat per job, and a deadline where one is set",
        delivery="at least once",
    ),
    left="""
        SELECT (SELECT count(*) FROM awa.ready_entries)
             - (SELECT count(*) FROM awa.done_entries)
             - (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
    """,
    completed="""
        SELECT (SELECT count(*) FROM awa.terminal_jobs WHERE state = 'completed')
             + (SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)
    """,
)

AT_ONCE = 10_000  # as in its own benchmark
CONNECTIONS = 20


@dataclass
class Bench:
    number: int


async def install(url: str) -> None:
    async with AsyncClient(_for_rust(url)) as awa:
        await awa.migrate()
        # What the first worker of a new installation does.
        await awa.install_queue_storage()


class Client:
    def __init__(self, awa: AsyncClient) -> None:
        self._awa = awa

    async def enqueue(self, number: int) -> None:
        await self._awa.insert(Bench(number))

    async def enqueue_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), AT_ONCE):
            some = numbers[start : start + AT_ONCE]
            await self._awa.enqueue_many_copy([Bench(number) for number in some])


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with AsyncClient(_for_rust(url)) as awa:
        yield Client(awa)


@asynccontextmanager
async def worker(url: str, settings: Settings, runs: Runs) -> AsyncIterator[None]:
    async with AsyncClient(_for_rust(url), max_connections=CONNECTIONS) as awa:

        @awa.task(Bench)
        async def bench(job: Job[Bench]) -> None:
            runs.note(job.args.number)

        queue = {
            "name": "default",
            "max_workers": settings["max_workers"],
            "claim_batch_size": settings["claim_batch_size"],
            "deadline_duration_ms": 0,
        }
        await awa.start([queue])
        yield
        await awa.shutdown()


def _for_rust(url: str) -> str:
    """Rust's parser wants a socket's folder where the host stands, not behind a question mark."""
    parts = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if "host" not in query:
        return url
    place = f"{quote(query['host'], safe='')}:{query.get('port', 5432)}"
    return f"postgresql://{parts.netloc.partition('@')[0]}@{place}{parts.path}"
