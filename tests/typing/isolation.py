"""What tasks that run in child processes look like to a type checker."""

from datetime import timedelta
from typing import assert_type

from penstock import Context, Enqueued, Penstock, Process, Worker, task
from penstock.telemetry import ChildDied

app = Penstock("postgresql://host/db")


@app.task(queue="parsing", isolate=Process(memory="512MB", time=60))
def extract(path: str) -> str:
    return path


@app.task(isolate=True)
async def convert(ctx: Context, path: str, pages: int = 1) -> int:
    return pages


@task(isolate=Process(memory=2**30, time=timedelta(minutes=1), deaths=1, grace=2.5))
def render(path: str) -> bytes:
    return b""


@task(isolate=None)
def plain() -> None: ...


@task(isolate=False)
def never() -> None: ...


async def uses() -> None:
    assert_type(await app.enqueue(extract, "a.pdf"), Enqueued[str])
    assert_type(await app.enqueue(convert, "a.pdf", pages=2), Enqueued[int])
    assert_type(app.worker({"parsing": 4}, children=4), Worker)
    app.events.subscribe(ChildDied, lambda died: print(died.job_id, died.cause))
    await app.enqueue(extract, 5)  # type: ignore[arg-type]


def refused() -> None:
    task(isolate="512MB")  # type: ignore[call-overload]
    Process(memory=[])  # type: ignore[arg-type]
    Process("512MB")  # type: ignore[call-arg]
    app.worker(children="4")  # type: ignore[arg-type]
