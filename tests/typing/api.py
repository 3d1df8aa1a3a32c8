"""What type checkers must know of the client of the API.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from penstock import BatchStatus, Enqueued, Job, JobStatus, Page
from penstock.api import Acted, Api, AsyncApi, Live, New
from penstock.groups.failed import Purged, Redriven

api = Api("http://localhost:8420", key="pk_x")
job = api.enqueue("shop.send", {"to": "ada"}, delay=60)

assert_type(job, Enqueued[Any])
assert_type(api.enqueue_many([New("shop.send", {"to": "ada"})]), list[Enqueued[Any]])
assert_type(api.get(job), Job)
assert_type(api.states([job, "7"]), dict[str, JobStatus])
assert_type(api.list(state="ready", limit=10), Page)
assert_type(api.cancel("7"), str)
assert_type(api.act("cancel", filter={"tag": "x"}, dry_run=True), Acted)
assert_type(api.wait_batch("7", timeout=5), BatchStatus)
assert_type(api.redrive(task="shop.send", rate="10/s"), Redriven)
assert_type(api.purge("7"), Purged)
assert_type(api.live("job", "7"), Iterator[Live])
assert_type(api.ask("GET", "/overview", dict[str, Any]), dict[str, Any])

api.get(7)  # type: ignore[arg-type]
api.list(states="ready")  # type: ignore[call-arg]
api.act("erase")  # type: ignore[arg-type]
api.live("jobs", "7")  # type: ignore[arg-type]


async def awaited(remote: AsyncApi) -> None:
    assert_type(await remote.enqueue("shop.send"), Enqueued[Any])
    assert_type(await remote.get("7"), Job)
    assert_type(remote.live("batch", "7"), AsyncIterator[Live])
    async for seen in remote.live("job", "7"):
        assert_type(seen.final, bool)
