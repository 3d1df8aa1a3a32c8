"""The examples that a command's help ends with: one of each command is run, the others are read.

To run them is to start some seventy processes. What options come to has tests of its own; that they
are there, and that their values are good, the parser of the command says.
"""

import json
import os
import re
import shlex
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
import typer

from penstock import Workflow
from penstock.cli import app
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.test_serve import is_ready
from tests.fixtures.database import Database, copied, create, drop
from tests.fixtures.forking import forker
from tests.fixtures.server import PostgresServer
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of


def examples(command: Any) -> Iterator[tuple[str, ...]]:
    """Those of a command, and of each below it."""
    yield getattr(command.callback, "examples", ())
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from examples(command.get_command(None, name))


COMMAND: Any = typer.main.get_command(app)
ALL = tuple(line for lines in examples(COMMAND) for line in lines)
STAYING = tuple(line for line in ALL if line.startswith("penstock work ") and "--drain" not in line)
SERVING = tuple(line for line in ALL if line.startswith(("penstock serve", "penstock up")))
# They measure, or play for half a minute: with other numbers, they have tests of their own.
LONG = tuple(line for line in ALL if line.startswith(("penstock bench", "penstock demo")))
EMBEDDED = tuple(line for line in ALL if "penstock db" in line)
# tests/knowledge/cli runs some of them, where there are vectors.
KNOWLEDGE = tuple(
    line
    for line in ALL
    if line.startswith(("penstock ingest", "penstock search", "penstock knowledge"))
    or "--with knowledge" in line
)
SHORT = [line for line in ALL if line not in (*STAYING, *SERVING, *LONG, *EMBEDDED, *KNOWLEDGE)]
# They change nothing, and can all be shown on one database, however long ago it was prepared.
LOOKS = re.compile(
    r"^penstock (audit|workers|stats|top|doctor|completion|dead summary)\b"
    r"|^penstock \w+ (list|show)\b|--dry-run|--status|--sql"
)


def shown_by(lines: tuple[str, ...]) -> Iterator[str]:
    """The one to run of a command's examples, for each way to run some.

    One that changes something rather than one that looks, and the one that says most.
    """
    some = [line for line in lines if line in SHORT]
    some = [line for line in some if not LOOKS.search(line)] or some
    for kind in (some, STAYING, SERVING, KNOWLEDGE):
        if here := [line for line in lines if line in kind]:
            yield max(here, key=len)


RUN = tuple(line for lines in examples(COMMAND) for line in shown_by(lines))
READ = tuple(line for line in ALL if line not in (*RUN, *EMBEDDED))
# `echo … | penstock enqueue -`, `penstock migrate --sql > penstock.sql`
ARGUMENTS = re.compile(r"(?:^|\| )penstock ([^|<>]*)")
HOME = (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions")
# Job 42 has failed: it has no result.
CODES = {"penstock jobs show 42 --follow --timeout 30s": 5}

JUST_READY = "UPDATE penstock.job SET ready_at = clock_timestamp() WHERE state = 'ready'"


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first fork, which waits for the imports: jobs of the examples should not wait for it."""
    forker().run(["--version"], tmp_path_factory.getbasetemp(), dict(os.environ), stdin="")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shown(postgres: PostgresServer, template: Database) -> AsyncIterator[Database]:
    """What the examples speak of: job 42, which has failed, a queue called mail, settings,
    batches 7, which is finished, and 8, workflows 5, which has ended,
    and 6, a schedule, a key, a person. It is copied for each example that changes something.
    """
    database = await create(postgres, source=template.name)
    shop = Shop(database.url)
    async with shop.app, database.connect() as connection:
        await _prepare(shop, connection)
    yield database
    await drop(postgres, database)


async def _prepare(shop: Shop, connection: asyncpg.Connection) -> None:
    await connection.execute("SELECT setval('penstock.job_id_seq', 41)")
    job = await shop.app.enqueue(shop.fail.options(queue="mail", tenant="acme"))
    assert job.id == "42"
    await worker_of(shop.app, "mail").drain()
    await shop.app.set_limit("openai", slots=10, rate=5)
    await shop.app.set_lane("imports", "acme", weight=3)
    for plan in ("gold", "trial"):
        await shop.app.set_plan(plan, weight=5)
    await shop.app.set_tenant("acme", plan="gold")
    await connection.execute("ALTER TABLE penstock.batch ALTER COLUMN id RESTART WITH 7")
    async with shop.app.batch("import"):
        pass
    await shop.app.open_batch("import")
    async with connection.transaction():
        await connection.execute("SELECT penstock.fold_v1()")
    await connection.execute("ALTER TABLE penstock.workflow ALTER COLUMN id RESTART WITH 5")
    for _ in range(2):
        await worker_of(shop.app).drain()
        flow = Workflow("import")
        flow.chain(shop.greet.prepare("Ada"), shop.greet.prepare("Eve"))
        await shop.app.start_workflow(flow)
    shop.app.schedule("nightly", shop.greet.prepare("Ada"), cron="0 3 * * *")
    await shop.app.sync_schedules()
    await shop.app.set_retention("completed", 5, queue="mail")
    await shop.app.create_key("ci", scopes=["read"])
    await shop.app.add_person("ada", role="viewer", password_hash="x")


def commands_in(folder: Path, database: Database) -> Commands:
    commands = Commands(folder, database.url)
    (folder / "password.txt").write_text("correct horse battery\n")
    for each in HOME:
        (folder / "home" / each).mkdir(parents=True)
    commands.environment["HOME"] = str(folder / "home")
    return commands


@pytest.fixture
async def prepared(
    forked: None,
    shown: Database,
    postgres: PostgresServer,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Commands]:
    """`penstock` on what the examples speak of, with a home."""
    async with copied(postgres, shown, request.node) as database:
        async with database.connect() as connection:
            # Jobs that have waited for long are another example.
            await connection.execute(JUST_READY)
        commands = commands_in(tmp_path, database)
        yield commands
        commands.close()


@pytest.fixture
def looking(shown: Database, tmp_path: Path) -> Commands:
    """The same, for examples that change nothing."""
    return commands_in(tmp_path, shown)


@pytest.mark.parametrize("line", READ)
def test_an_example_can_be_read(line: str) -> None:
    arguments = ARGUMENTS.search(line)
    assert arguments
    command, words = COMMAND, shlex.split(arguments[1])
    while words and hasattr(command, "get_command"):
        command = command.get_command(None, words.pop(0))
    assert command is not None, f"There is no such command: {line}"
    assert not hasattr(command, "get_command"), f"There is no such command: {words}"
    with command.make_context(command.name, words):
        pass


@pytest.mark.parametrize("line", [line for line in RUN if line in SHORT and not LOOKS.search(line)])
def test_an_example_works(line: str, prepared: Commands) -> None:
    _works(line, prepared)


@pytest.mark.parametrize("line", [line for line in RUN if line in SHORT and LOOKS.search(line)])
def test_an_example_that_looks_works(line: str, looking: Commands) -> None:
    _works(line, looking)


def _works(line: str, commands: Commands) -> None:
    done = commands.shell(line)
    assert done.returncode in _expected(line), f"{done.stdout}{done.stderr}"


def _expected(line: str) -> tuple[int, ...]:
    # Whether a doctor finds something here is not the question.
    return (0, 3) if line.startswith("penstock doctor") else (CODES.get(line, 0),)


@pytest.mark.parametrize("line", [line for line in RUN if line in STAYING])
async def test_a_worker_of_the_examples_works(line: str, penstock: Commands, shop: Shop) -> None:
    await shop.app.set_queue("imports", fair=True)
    worker = penstock.start(*line.split()[1:])
    named = re.search(r"--queue (\w+)", line)
    greet = shop.greet.options(queue=named[1] if named else "default", tenant="acme")
    job = await shop.app.enqueue(greet, "Ada")
    assert await shop.app.wait(job, timeout=60) == "Hello, Ada"
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


@pytest.mark.parametrize("line", [line for line in RUN if line in SERVING])
async def test_a_service_of_the_examples_answers(line: str, penstock: Commands) -> None:
    # Of a port that is given twice the last one counts.
    service = penstock.start(*line.split()[1:], "--port", "0", "--json")
    assert service.process.stdout is not None
    address = json.loads(service.process.stdout.readline())["address"]
    await until(lambda: is_ready(address), what="the service to be ready")
    service.send(signal.SIGTERM)
    assert service.end() == 0


# Servers are made, started and stopped: a slow machine has its time.
@pytest.mark.timeout(300)
async def test_the_examples_of_the_embedded_server_work(bare: Commands) -> None:
    starts = [line for line in EMBEDDED if line.startswith("penstock db start")]
    stops = [line for line in EMBEDDED if line.startswith("penstock db stop")]
    between = [line for line in EMBEDDED if line not in starts and line not in stops]
    try:
        for line in (*starts, *between):
            done = bare.shell(line)
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    finally:
        bare.run("db", "stop", "--data-dir", "shop.pg")
        stopped = [bare.shell(line).returncode for line in stops]
    assert stopped == [0] * len(stops)
    await until(lambda: bare.run("db", "status").returncode == 3, what="the server to be gone")
