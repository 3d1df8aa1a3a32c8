"""What type checkers must know of the blocking client.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_type

from penstock import (
    BatchPage,
    BatchStatus,
    Context,
    Enqueued,
    Fire,
    Job,
    JobStatus,
    Page,
    Penstock,
    Present,
    Schedule,
    Windows,
)
from penstock.app.sync import SyncBatchHandle, SyncClient
from penstock.groups.failed import Purged, Redriven
from penstock.groups.keys import NewKey
from penstock.groups.settings import Limit, QueueSettings, Retention, Tenant

app = Penstock()


@app.task
async def size(url: str, *, depth: int = 1) -> int:
    return len(url) * depth


@app.task
def note(ctx: Context, text: str) -> None:
    assert_type(ctx.sync.fence(object()), None)
    assert_type(ctx.sync.complete(object(), 5), None)


def blocking(connection: Any) -> None:
    job = app.sync.enqueue(size, "https://a.b", depth=2)
    assert_type(job, Enqueued[int])
    assert_type(app.sync.wait(job, timeout=5), int)
    assert_type(app.sync.get(job), Job)
    assert_type(app.sync.find("5"), Job | None)
    assert_type(app.sync.states([job]), dict[str, JobStatus])
    assert_type(app.sync.present("job", [job.id]), dict[str, Present])
    app.sync.present("planet", ["mars"])  # type: ignore[arg-type]
    assert_type(app.sync.list(state="failed", limit=5), Page)
    assert_type(app.sync.cancel(job, reason="late"), bool)
    assert_type(app.sync.migrate(), list[str])
    assert_type(app.sync.enqueue_many([size.prepare("a"), size.prepare("b")]), list[Enqueued[int]])
    assert_type(app.sync.inside(connection).enqueue(note, "x"), Enqueued[None])
    with app.sync as jobs:
        jobs.pause("default")
    nights = Windows("22:00-06:00", timezone="Europe/Berlin")
    assert_type(app.sync.set_queue("reports", windows=nights, late_after=None), QueueSettings)
    assert_type(app.sync.set_limit("openai", rate="500/min"), Limit)
    assert_type(app.sync.create_key("ci", scopes=["read"]), NewKey)
    assert_type(app.sync.acting("ada").for_tenant("acme", confined=True), SyncClient)
    assert_type(app.sync.remove_limit("openai"), bool)
    assert_type(app.sync.tenants(plan="gold"), Sequence[Tenant])
    app.schedule("sizes", size.prepare("a"), cron="@daily", overlap="queue_one", wins="code")
    app.schedule("sizes", size.prepare("a"), every=5, overlap="maybe")  # type: ignore[arg-type]
    assert_type(app.sync.set_schedule("sizes", every=timedelta(hours=1)), Schedule)
    assert_type(app.sync.schedules(), Sequence[Schedule])
    assert_type(app.sync.schedule_fires("sizes", limit=5), Sequence[Fire])
    assert_type(app.sync.run_schedule("sizes"), Enqueued[Any])
    assert_type(app.sync.dead_letters(task=size, error="ValueError", limit=5), Page)
    assert_type(app.sync.redrive(job, "7", rate="10/s"), Redriven)
    assert_type(app.sync.redrive(queue="mail", limit=5), Redriven)
    assert_type(app.sync.purge(tenant="acme"), Purged)
    assert_type(app.sync.set_retention("failed", 90, queue="mail"), Retention)
    with app.sync.batch("import", on_end=size.prepare("a"), on_success=note) as batch:
        assert_type(batch, SyncBatchHandle)
        assert_type(batch.enqueue(size, "a"), Enqueued[int])
        batch.enqueue(size, 5)  # type: ignore[arg-type]
    assert_type(app.sync.wait_batch(batch.id, timeout=5), BatchStatus)
    assert_type(app.sync.batches(state="open"), BatchPage)
    app.sync.batches(state="closed")  # type: ignore[arg-type]
    assert_type(app.sync.retry_batch(batch.id, rate="10/s"), Redriven)

    app.sync.enqueue(size, 5)  # type: ignore[arg-type]
    app.sync.enqueue(size, "a", deep=1)  # type: ignore[call-arg]
    app.sync.list(stat="failed")  # type: ignore[call-arg]
    app.sync.wait(job, 5, 6)  # type: ignore[call-arg]
    app.sync.redrive(tasks="mail")  # type: ignore[call-arg]
    app.sync.redrive(since="1h")  # type: ignore[arg-type]
    app.sync.set_queue("reports", windows="22:00-06:00")  # type: ignore[arg-type]
    app.sync.set_lane("imports", "acme", weight=None)  # type: ignore[arg-type]
