"""What others do while `penstock ingest` runs."""

import asyncio
import json
import re
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock_apps.knowledge.cli.progress import Lines, wait_for_documents
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.tasks import SMALL_QUEUE
from tests.cli.command import Commands
from tests.fixtures.database import Database, connected
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.insights import rows
from tests.knowledge.cli.conftest import KEYS, TRAVEL
from tests.knowledge.scene import Scene

# What is said of a command that takes longer than some seconds.
ON_THE_WAY = r"(?:\d of 2 (?:files read|documents are ingested)\n|.* is paused.*\n)*"
WAITING = "SELECT count(*) = $1 FROM k.document WHERE state = 'pending'"


async def test_what_is_deleted_meanwhile_is_not_said_to_come(
    penstock: Commands, handbook: Path, scene: Scene
) -> None:
    async def delete_base(library: Library) -> None:
        await library.delete_base((await library.base("notes")).id)

    async def delete_source(library: Library) -> None:
        source = await library.find_source(await library.base("notes"), "files", str(handbook))
        assert source is not None
        await library.delete_source(source)

    async def delete_documents(library: Library) -> None:
        held = await library.list_held(await library.base("notes"), "files", str(handbook))
        await library.delete_documents([each.id for each in held.values()])

    async def delete_tenant(library: Library) -> None:
        await library.delete_tenant()

    deleting: dict[str, Callable[[Library], Awaitable[None]]] = {
        "base": delete_base,
        "source": delete_source,
        "documents": delete_documents,
        "tenant": delete_tenant,
    }
    await scene.app.pause(SMALL_QUEUE)
    runs = {
        tenant: penstock.start(
            *("ingest", "handbook", "--base", "notes", "--tenant", tenant, "--no-work", "--json")
        )
        for tenant in deleting
    }
    count = 2 * len(runs)
    await until(lambda: scene.value(WAITING, count), what="the documents to be written down")
    said = {}
    for tenant, run in runs.items():
        await deleting[tenant](scene.knowledge.of(scene.runtime, tenant))
        assert await asyncio.to_thread(run.end, 90) == 3, run.log
        said[tenant] = json.loads(run.output)

    assert {
        tenant: said[tenant]["error"]["message"] for tenant in ("base", "source", "tenant")
    } == {
        "base": "The knowledge base notes was deleted meanwhile.",
        "source": f"The source {handbook} was deleted meanwhile.",
        "tenant": "The tenant tenant was deleted meanwhile.",
    }
    assert {each["reason"] for each in said["documents"]["errors"]} == {"It was deleted meanwhile."}
    assert (said["documents"]["failed"], said["documents"].get("pending")) == (2, None)


async def test_interrupted_ingest_says_how_to_go_on(
    penstock: Commands, handbook: Path, scene: Scene, knowledge_database: Database
) -> None:
    await scene.app.pause(SMALL_QUEUE)
    with Proxy(knowledge_database.url) as proxy:
        pressed = penstock.start("ingest", "handbook", "--tenant", "pressed")
        lost = penstock.start(
            *("ingest", "handbook", "--tenant", "lost", "--no-work", "--database-url", proxy.url)
        )
        await until(lambda: scene.value(WAITING, 4), what="the documents to be written down")
        pressed.send(signal.SIGINT)
        pressed.send(signal.SIGINT)
        proxy.refuse()
        assert await asyncio.to_thread(pressed.end, 90) == 130
        assert await asyncio.to_thread(lost.end, 90) == 1
    rest = "What has been ingested stays. Run the same command again to continue with the rest."
    assert re.fullmatch(rf"{ON_THE_WAY}Interrupted\. {re.escape(rest)}\n", pressed.log)
    assert lost.log.splitlines()[-1].endswith(rest)
    assert " was lost: " in lost.log


async def test_why_nothing_comes_in_is_said_once(
    scene: Scene,
    library: Library,
    knowledge_database: Database,
    capsys: pytest.CaptureFixture[str],
) -> None:
    receipt = await scene.add(library, {"keys.md": KEYS, "travel.md": TRAVEL})
    nobody = await asyncio.create_subprocess_exec("/bin/true")
    await nobody.wait()
    async with connected(knowledge_database.admin_url) as connection:
        info = json.dumps({"host": socket.gethostname(), "pid": nobody.pid})
        await rows.run(
            connection,
            await rows.lease(connection, "gone", info=info),
            await connection.fetchval("SELECT min(id) FROM penstock.job WHERE state = 'ready'"),
        )
    held = "1 is held by a worker that does not answer; it is taken back in about "
    nobody_serves = f"No living worker serves the queue {SMALL_QUEUE}. Start one with `penstock up`"
    log = ""

    def lines(of: str) -> int:
        nonlocal log
        log += capsys.readouterr().err
        return log.count(of)

    # It looks what is in the way, and tells how far it is, at each of its looks.
    screen = Lines(quiet=False, every=0.0)
    waiting = asyncio.create_task(
        wait_for_documents(library, [receipt.source], 2, screen, still=0.0)
    )
    for line in (held, nobody_serves):
        await until(lambda line=line: lines(line), 90, what=line)  # type: ignore[misc]
    seen = lines("0 of 2 documents are ingested")
    await until(lambda: lines("0 of 2 documents are ingested") > seen + 2, 90, what="more lines")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (lines(held), lines(nobody_serves)) == (1, 1)
