"""What a peer tells of itself, and what it must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.peers.runs import Runs

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Promises:
    """What a rate does not show: queues that promise different things do different work."""

    core: str
    claim: str  # how many jobs at once, and whether its commit waits for the disk
    completion: str  # when the end of a job is written, and how
    history: str
    fence: str  # what stops a worker that was given up from settling a job that is another's now
    liveness: str  # how a dead worker is noticed
    delivery: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One peer, as the page shows it and as the comparison needs it."""

    name: str
    package: str
    home: str = ""
    jobs: int = 0  # a drain of some seconds; a slow queue gets fewer, which spares it dead rows
    settings: Settings = field(default_factory=dict)  # of the worker; others are the peer's own
    tried: tuple[Settings, ...] = ()  # the sweep: each replaces some of the settings
    reasons: tuple[str, ...] = ()  # one sentence for each choice
    promises: Promises | None = None
    left: str  # SQL: how many jobs have not come to their end
    completed: str  # SQL: how many jobs are recorded as completed, or as done and removed
    extensions: tuple[str, ...] = ()  # what a superuser has to install first
    needs: tuple[int, int] = (3, 11)  # the oldest Python


class Client(Protocol):
    """Enqueues jobs of the one task, whose argument is the document {"number": n}."""

    async def enqueue(self, number: int) -> None:
        """One job, committed when this returns."""

    async def enqueue_many(self, numbers: range) -> None:
        """All of them, by the quickest way that the peer offers."""


class Peer(Protocol):
    """A module of this package, or another thing that can do the same."""

    FACTS: Facts

    async def install(self, url: str) -> None: ...

    def client(self, url: str) -> AbstractAsyncContextManager[Client]: ...

    def worker(
        self, url: str, settings: Settings, runs: Runs
    ) -> AbstractAsyncContextManager[None]: ...
