"""What the docstrings of the engine show is run."""

import asyncio
import collections.abc
import inspect
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import penstock
from penstock import Context, Penstock, Retryable, testing
from penstock.doctor import CheckLimits, examine
from penstock.insights import Thresholds
from penstock.migrate import migrate
from penstock.net.guard import Allowed
from penstock.net.media_type import media_type
from penstock.storage.sink import Sink
from penstock.storage.storage import Storage
from penstock.telemetry import JobFinished
from penstock.testing import drain, faults, for_tests
from tests.docs.docstrings import Example, compiled, examples
from tests.fixtures.database import Database, connected

URL = re.compile(r"postgresql://[^\"]*")
HERE = Path(inspect.getfile(penstock)).parent
# What is not for users of the engine, or has tests of its own with what it needs.
NOT_RUN = {
    "api/": "a service that answers",
    "bench/": "a measurement",
    "cli/": "inside",
    "doctor/examination.py": "a database without findings",
    "embedded/": "a server of its own",
    "forks.py": "inside",
    "integrations/": "a project of Django, or a collector",
    "service/": "a web server",
    "store/": "inside",
    "insights/insights.py": "inside",
    "net/fetch.py": "a page of the public web",
    "tasks/handler/context.py extend": "the workflow of its job",
    "testing/databases.py": "a server of its own",
    "testing/faults.py": "a job for each line",
    "worker/processes.py": "processes of its own",
}
ALL = [each for each in examples(HERE) if not each.place.startswith(tuple(NOT_RUN))]

JOB = "job = await app.enqueue(remind.options(delay=60), 42)"
DEAD = "job = await app.enqueue(charge.options(max_attempts=1), 42); await drain(app, raises=False)"
FLOW = """
flow = Workflow()
flow.add(fetch_site.prepare("https://example.org"), name="fetch")
flow.add(index_all.prepare(), after="fetch", name="index")
"""
# What happens before an example.
BEFORE = {
    "app/app.py use_database": "await app.close()",
    "app/client.py acting": JOB,
    "groups/failed.py redrive": DEAD,
    "groups/schedules.py set_schedule": (
        'app.schedule("nightly", refresh, every=60); await app.sync_schedules()'
    ),
    "groups/workflows.py start_workflow": FLOW,
    "groups/workflows.py extend_workflow": f"{FLOW}started = await app.start_workflow(flow)",
    "tasks/workflow.py chain": "fetch = index = refresh; flow = Workflow()",
    "tasks/task.py configured": (
        "extract = task(name='extract')(parse.fn); settings = SimpleNamespace(memory='1GB')"
    ),
    "tasks/handler/context.py budget": 'await app.set_limit("openai", rate="5000/s", burst=5000)',
    "testing/sync.py Inline": "from penstock.testing.sync import Inline",
    "testing/clock.py advance_to": JOB,
    "testing/jobs.py enqueued": 'await app.enqueue(send_invoice.options(queue="mail"), 42)',
    "testing/jobs.py assert_enqueued": "await app.enqueue(send_invoice.options(delay=3600), 42)",
}
# A handler's, which runs them with its context.
WITHIN = ("tasks/handler/cache.py", "tasks/handler/context.py", "groups/batches.py batch_handle")
# They wait for what a worker does.
WAITING = ("app/sync.py SyncClient", "groups/workflows.py start_workflow")
BLOCKING = ("app/sync.py", "testing/sync.py")
TASKS = """
class Mailer: ...
class FakeMailer: ...
class Model: ...

async def track(user: int, what: str) -> None: ...
async def sign_up(name: str) -> None: await app.enqueue(welcome, name)
async def ask(prompt: str) -> SimpleNamespace: return SimpleNamespace(tokens=7)
async def extract(document: int) -> str: return "text"
async def store(document: int, text: str) -> None: ...
async def start(video: str, key: str) -> str: return "operation"
async def look(operation: str) -> list[str]: return ["word"]

@app.task(name="shop.greet")
async def greet(name: str) -> str: return f"Hello, {name}"
@app.task(name="shop.welcome")
async def welcome(name: str) -> None: ...
@app.task(name="shop.send_invoice")
async def send_invoice(order: int) -> str: return "sent"
@app.task(name="shop.charge", retry=Fixed(30))
async def charge(order: int) -> None: raise ConnectionError("the bank is away")
@app.task(name="shop.remind")
async def remind(order: int) -> None: ...
@app.task(name="shop.send")
async def send(address: str) -> None: ...
@app.task(name="shop.index")
async def index(document: int) -> None: ...
@app.task(name="shop.index_all")
async def index_all() -> None: ...
@app.task(name="shop.embed")
async def embed(page: int) -> None: ...
@app.task(name="shop.parse")
async def parse(page: int) -> None: ...
@app.task(name="shop.fetch_site")
async def fetch_site(url: str) -> None: ...
@app.task(name="shop.load")
async def load(number: int) -> None: ...
@app.task(name="shop.publish")
async def publish(number: int = 0) -> None: ...
@app.task(name="shop.report")
async def report(which: str) -> None: ...
@app.task(name="shop.refresh")
async def refresh() -> None: ...
"""


@pytest.fixture
async def names(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[dict[str, Any]]:
    """What the examples take as given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", database.url)
    app = Penstock(database.url)
    for_tests(app)
    async with app, connected(database.url) as connection:
        given = {
            **{name: getattr(penstock, name) for name in penstock.__all__},
            **{name: getattr(testing, name) for name in testing.__all__},
            **vars(collections.abc),
            "JobFinished": JobFinished,
            "CheckLimits": CheckLimits,
            "SimpleNamespace": SimpleNamespace,
            "Thresholds": Thresholds,
            "UTC": UTC,
            "app": app,
            "asynccontextmanager": asynccontextmanager,
            "connection": connection,
            "datetime": datetime,
            "examine": examine,
            "httpx": httpx,
            "migrate": migrate,
            "Raise": faults.Raise,
            "address": "ada@example.org",
            "document": 7,
            "order": 42,
            "page": 1,
            "pages": range(3),
            "prompt": "Why?",
            "response": SimpleNamespace(headers={}),
            "text": "words",
            "video": "v.mp4",
            "timedelta": timedelta,
            **files_in(tmp_path),
            "url": database.url,
            "user": 1,
        }
        exec(TASKS, given)
        yield given


def files_in(folder: Path) -> dict[str, Any]:
    """A file, where it is stored, and what else the examples of files take as given."""
    path = folder / "handbook.pdf"
    path.write_bytes(b"hello")
    return {
        "Allowed": Allowed,
        "Sink": Sink,
        "Storage": Storage,
        "copy": folder / "copy",
        "digest": sha256(b"hello").digest(),
        "media_type": media_type,
        "path": path,
        "piece": b"hello",
        "storage": Storage.of(str(folder / "stored")),
    }


def test_examples_are_found_and_exceptions_are_some_of_them() -> None:
    places = {each.place for each in examples(HERE)}
    assert {"app/app.py Penstock", "tasks/handler/context.py step", "windows.py Windows"} <= places
    assert not [left for left in NOT_RUN if not any(each.startswith(left) for each in places)]
    assert BEFORE.keys() <= places


async def run(code: str, place: str, names: dict[str, Any]) -> None:
    if place.startswith(BLOCKING):
        await asyncio.to_thread(exec, compiled(code, place), names)
        return
    running = eval(compiled(code, place), names)
    if inspect.iscoroutine(running):
        await running


async def run_within(code: str, place: str, names: dict[str, Any]) -> None:
    """Run it as the handler of a job of a batch; one that waits is left waiting."""
    app = names["app"]

    @app.task(name="example")
    async def example(ctx: Context) -> None:
        await run(code, place, names | {"ctx": ctx})

    async with app.batch("examples") as batch:
        await batch.enqueue(example)
    await drain(app)


@pytest.mark.parametrize("example", ALL, ids=lambda each: each.place)
async def test_example_runs(example: Example, names: dict[str, Any]) -> None:
    place = example.place
    code = URL.sub(names["url"], example.code).replace('"INSERT INTO invoice …"', '"SELECT 1"')
    await run(BEFORE.get(place, ""), "before", names)
    async with AsyncExitStack() as stack:
        if place in WAITING:
            await stack.enter_async_context(names["app"].worker())
        if code.startswith("raise "):
            stack.enter_context(pytest.raises(Retryable))
        defines_task = place.endswith(" Context")
        is_within = place.startswith(WITHIN) and not defines_task
        await (run_within if is_within else run)(code, place, names)
