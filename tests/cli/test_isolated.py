"""Jobs in child processes, as the command line has them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg

from penstock import Penstock
from tests.cli.command import Commands
from tests.fixtures.database import Database
from tests.fixtures.until import until

PARSING = """
import ctypes
from penstock import Fixed, Penstock, Process

app = Penstock()

@app.task(name="parse", isolate=Process(memory="512MB", deaths=2), retry=Fixed(0))
def parse(document: str) -> str:
    if document == "crash":
        ctypes.string_at(0)
    return document.upper()

@app.task(name="split", isolate=True)
async def split(document: str) -> None:
    await app.enqueue_many(parse.prepare(page) for page in document)
"""
UNGUARDED = """
import asyncio
asyncio.run(app.worker().drain())
"""

CHILDREN = "SELECT max((info ->> 'children')::int) FROM penstock.lease"


def parsing(folder: Path, more: str = "") -> dict[str, Any]:
    """The app, on disk for the commands and here."""
    (folder / "parsing.py").write_text(PARSING + more)
    names: dict[str, Any] = {"__name__": "parsing"}
    exec(PARSING, names)
    return names


async def test_a_worker_has_children_and_says_how_many(
    penstock: Commands, database: Database, connection: asyncpg.Connection
) -> None:
    parse = parsing(penstock.folder)["parse"]
    worker = penstock.start("work", "parsing", "--children", "3", "--heartbeat", "100ms")
    async with Penstock(database.url) as app:
        bad = await app.enqueue(parse, "crash")

        async def dead() -> bool:
            return (await app.get(bad)).state == "failed"

        async def has_children() -> bool:
            return bool(await connection.fetchval(CHILDREN))

        await until(dead, what="the job to fail")
        assert await app.wait(await app.enqueue(parse, "a"), timeout=30) == "A"
        await until(has_children, what="a heartbeat")
        shown = penstock.run("workers", COLUMNS="140").stdout
        [found] = json.loads(penstock.run("workers", "--json").stdout)["workers"]
    assert (found["children_most"], found["children"] in (1, 2, 3)) == (3, True)
    assert f" {found['children']}/3 " in shown.splitlines()[1]
    worker.send(signal.SIGTERM)
    assert worker.end() == 0

    lines = penstock.run("jobs", "show", bad.id).stdout.splitlines()
    assert lines[0] == f"Job {bad.id}  parse  failed (poison)"
    first = lines.index("  Segfault: Signal 11 (SIGSEGV) ended the child process.")
    assert lines[first + 1] == "  Fatal Python error: Segmentation fault"
    assert lines[first + 4].endswith('parsing.py", line 10 in parse')
    assert "poison" in penstock.run("dead", "summary").stdout


async def test_program_that_works_on_import_says_how_to_guard_it(
    penstock: Commands, database: Database
) -> None:
    parse = parsing(penstock.folder, UNGUARDED)["parse"]
    async with Penstock(database.url) as app:
        job = await app.enqueue(parse, "a")
        program = [sys.executable, "parsing.py"]
        ended = await asyncio.to_thread(
            lambda: subprocess.run(
                program,
                cwd=penstock.folder,
                env=os.environ | penstock.environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
        )
        assert ended.returncode == 0
        assert 'Start it under `if __name__ == "__main__":`' in ended.stderr
        assert (await app.get(job)).state == "scheduled"


async def test_what_a_child_enqueues_goes_where_the_command_was_led(
    bare: Commands, database: Database
) -> None:
    split = parsing(bare.folder)["split"]
    async with Penstock(database.url) as app:
        await app.enqueue(split, "ab")
        drained = bare.run("work", "parsing", "--drain", "--json", "--database-url", database.url)
    assert json.loads(drained.stdout)["completed"] == 3, drained.stderr
