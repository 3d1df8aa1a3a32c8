"""The tasks of the demo: quick ones, slow ones, failing ones, and one that kills its worker."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import time

from penstock.app.app import Penstock
from penstock.backoff import Listed
from penstock.errors import Retryable
from penstock.outcome import Snooze
from penstock.tasks import Context

app = Penstock()


@app.task(name="thumbnail", queue="images")
async def thumbnail(picture: int) -> None:
    """A quick task, of which there are thousands of jobs."""
    await asyncio.sleep(random.uniform(0.02, 0.04))


@app.task(name="checksum", queue="files")
def checksum(file: int) -> str:
    """A plain function, which runs in a thread."""
    time.sleep(random.uniform(0.04, 0.08))
    return hashlib.sha256(file.to_bytes(8) * 10_000).hexdigest()


@app.task(name="transcribe", queue="audio")
async def transcribe(recording: int, seconds: float = 0.5) -> None:
    """A slow task, like a call to a model."""
    await asyncio.sleep(random.uniform(seconds, 2 * seconds))


@app.task(name="fetch_page", queue="web", max_attempts=4, retry=Listed([0.5, 1, 2], jitter=0.3))
async def fetch_page(ctx: Context, page: int, refusals: int) -> None:
    """Fail this many times before succeeding, or until no attempt is left."""
    await asyncio.sleep(random.uniform(0.05, 0.15))
    if ctx.job.failures < refusals:
        raise Retryable("The server is busy.")


@app.task(name="await_export", queue="web")
async def await_export(ctx: Context, export: int, pause: float = 1.0) -> Snooze | str:
    """Check whether an outside operation is done, and snooze if it is not."""
    await asyncio.sleep(0.02)
    return Snooze(random.uniform(pause, 2 * pause)) if ctx.attempt < 4 else "exported"


@app.task(name="crash", queue="crash")
async def crash(ctx: Context) -> str:
    """Kill the worker at the first attempt, as a faulty library may."""
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"
