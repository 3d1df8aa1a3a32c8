"""The programs in examples/ run, and say what they should."""

import os
import re
from pathlib import Path

import pytest

import penstock
from penstock.embedded import Server
from tests.fixtures.database import Database, connected
from tests.fixtures.pythons import pythons

EXAMPLES = Path(__file__).parents[2] / "examples"

SAID = {
    "quickstart": ["Hello, Ada"],
    "transaction": ["rolled back: order 2 is not paid", "1 job ran", "invoice 1 sent"],
    "exactly_once": ["completed after 2 attempts, balance 100"],
    "retries": [
        "succeeded at attempt 3",
        "accepted",
        "ready at last",
        "discarded: the account is closed",
        "discarded: no text",
        "discarded: it is a duplicate",
    ],
    "resources": [
        "the model is loaded",
        "[2.0, 2.0]",
        "[2.0, 3.0, 2.0, 2.0]",
        "the model is unloaded",
        "1 model for 2 jobs",
    ],
    "fair_tenants": [
        "first come, first served: small is number 321",
        "turns between tenants: small is number 3",
        "the first nine: large medium small large medium large medium large medium",
        "medium with weight 3 comes more often than large: True",
    ],
    "model_budget": [
        "12 chapters for 1440 tokens",
        "the service refused 1 call, and 0 attempts failed",
    ],
    "micro_batching": [
        "63 pages embedded, 1 failed",
        "the first: [6.0]",
        "the bad one: HTTP Error 400: Bad Request",
        "12 calls for 64 pages, the largest of 16",
    ],
    "workflow": [
        "blocked: penstock.errors.NotRetryable: chapter two cannot be read",
        "1 job comes back",
        "completed: eins zwei drei",
    ],
    "schedules": [
        "ticks are skipped while the last job runs",
        "nightly now fires by 0 5 * * * in Europe/Berlin",
        "and by 0 3 * * * again, as the code says",
        "stock for nightly",
    ],
    "unique": [
        "the second import is the first: True",
        "saved version 20 of note 1",
        "the older one was superseded",
        "indexed new text",
    ],
    "off_peak": [
        "answered: what time is it?",
        "by day the reports are ready",
        "report for acme",
        "report for mini",
    ],
    "tenants": [
        "['acme has read roof.pdf']",
        "['globex has read cellar.pdf']",
        "0 jobs without a tenant",
        "globex finds no job of acme",
        "globex enqueues none for acme",
    ],
    "batch_import": [
        "something failed in import",
        "4 of 4 jobs have ended, 1 failed",
        "1 comes back",
        "acme shows 3 products",
    ],
    "dead_letters": [
        "8 × ConnectionError: no route to the mail server",
        "2 × LookupError: there is no order 10",
        "8 came back",
        "invoice 1 sent",
        "invoice 9 sent",
        "2 were let go",
    ],
    "steps": [
        "order 1: reserved",
        "described kettle",
        "order 1: event:paid:1",
        "order 1: shipped from shelf-1",
        "a very good kettle, paid by card, in 3 attempts",
        "order 2: reserved",
        "order 2: shipped from shelf-2",
        "a very good kettle, paid by cash, in 2 attempts",
    ],
    "poll_operation": [
        "water under the bridge",
        "1 operation started, 1 failure",
        "more than one poll: True",
        "gave up after 1 poll",
    ],
    "local_pool": [
        "here is your kettle",
        "here is your lamp",
        "1 × Ada looked at a kettle",
        "1 × Bob looked at a lamp",
        "2 × lines",
        "1 × the warehouse looked at a kettle",
        "of 1000 at once 104 were taken",
        "1005 submitted, 109 done, 896 dropped",
    ],
    "isolation": [
        "letter.txt   completed             10 characters",
        "null.pdf     failed     poison     Segfault",
        "corrupt.doc  failed     poison     Killed",
        "bomb.zip     failed     poison     OutOfMemory",
        "endless.xml  failed     poison     TimeLimit",
        "rude.xls     failed     poison     Exited",
        "empty.txt    failed     discarded  penstock.errors.NotRetryable",
        "novel.txt    completed             9 characters",
        "answered: does it hurt?",
    ],
    "embedded_worker": ["Water … (43 characters)"],
}


def run(*command: str, folder: Path = EXAMPLES, **environment: str) -> str:
    """Run Python with a command in a folder; what it said on stdout."""
    cleared = {key: value for key, value in os.environ.items() if "PENSTOCK" not in key}
    source = str(Path(penstock.__file__).parents[1])
    settled = {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = pythons().run([*command], folder, cleared | settled | environment, stdin="")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        *SAID,
        "knowledge",
        "progress",
        "drain",
        "fastapi_shop",
    }


@pytest.mark.parametrize("name", SAID)
def test_an_example_says_what_it_should(name: str, database: Database) -> None:
    said = run(f"{name}.py", PENSTOCK_DATABASE_URL=database.url)
    assert said.splitlines() == SAID[name]


def test_quickstart_needs_no_database_of_ones_own(tmp_path: Path) -> None:
    said = run(str(EXAMPLES / "quickstart.py"), folder=tmp_path)
    assert said == "Hello, Ada\n"
    assert not Server(tmp_path / ".penstock").status().running


async def test_knowledge_takes_documents_in_and_answers(database: Database, tmp_path: Path) -> None:
    async with connected(database.admin_url) as admin:
        await admin.execute("CREATE EXTENSION vector")
    where = {
        "PENSTOCK_DATABASE_URL": database.url,
        "PENSTOCK_KNOWLEDGE_STORAGE": str(tmp_path / "objects"),
    }
    assert run("knowledge.py", **where).splitlines() == [
        "2 went in, 0 unchanged",
        "  keys.md: 1 chunks, 1 new",
        "  travel.md: 1 chunks, 1 new",
        "what happens to a lost key? keys.md, Keys",
        "1 went in, 1 unchanged",
        "  travel.md: 1 chunks, 1 new",
        "how early are trains booked? travel.md, Travel",
    ]


def test_progress_is_seen_on_the_way(database: Database) -> None:
    said = run("progress.py", PENSTOCK_DATABASE_URL=database.url).splitlines()
    # Reports are written a few times a second: which of the pages are seen is left to chance.
    seen = {int(pages) for pages in re.findall(r"running, (\d) of 8 pages", "\n".join(said))}
    assert seen & set(range(1, 8))
    assert sorted(said[-3:]) == [f"job {job} completed" for job in (1, 2, 3)]


def test_what_one_process_enqueued_a_drain_works_off(database: Database) -> None:
    assert "3 jobs" in run("drain.py", PENSTOCK_DATABASE_URL=database.url)
    drain = ("-m", "penstock.cli", "work", "drain", "--drain", "--for", "25s")
    assert run(*drain, PENSTOCK_DATABASE_URL=database.url).startswith("3 completed in ")
