"""Questions about this project's own documentation, whose pages answer them.

The long form asks about Postgres's manual: `make bench-knowledge-search`.
"""

from pathlib import Path

from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.extract import extract
from penstock_apps.knowledge.search import Mode
from penstock_apps.knowledge.store.tables import TablePool
from tests.knowledge.search.shelf import Shelf

DOCS = Path(__file__).parents[3] / "docs"

QUESTIONS = {
    "How do I move my tasks over from Celery?": {"from-celery.md"},
    "run a job by a cron expression in a time zone": {"schedules.md"},
    "Can a job be enqueued in the same transaction as my own data?": {"transactions.md"},
    "What happens to a job that has failed too often?": {"dead-letters.md", "retries.md"},
    "How long is the delay before the next attempt?": {"retries.md"},
    "What is done with a second job that has the same unique key?": {"unique-jobs.md"},
    "How is a fair queue shared among tenants?": {"fairness.md", "tenants.md"},
    "limit how many jobs start in a minute": {"limits.md"},
    "Does it work behind PgBouncer in transaction mode?": {"pgbouncer.md"},
    "a workflow of jobs with parents and children": {"workflows.md"},
    "traces and metrics with OpenTelemetry": {"observability.md"},
    "How do I test my tasks without a database?": {"testing.md"},
    "listen to the progress of a job over SSE": {"live.md", "http-api.md", "fastapi.md"},
    "kill a job that uses too much memory": {"isolation.md"},
    "Are the steps of a job that crashed run again?": {"steps.md", "exactly-once.md"},
    "What does doctor check?": {"doctor.md"},
    "How do I wait for the end of a batch?": {"batches.md"},
    "enqueue from a Django view": {"django.md"},
    "Which environment variables are there for settings?": {"settings.md"},
    "Who may do what with an API key?": {"access.md", "service.md", "http-api.md"},
}


async def test_the_page_that_answers_is_among_the_first_five(tables: TablePool) -> None:
    shelf = await Shelf(tables).build()
    source = await shelf.source()
    for page in sorted(DOCS.glob("*.md")):
        await shelf.add(source, page.name, *split(extract(page, page.name), Chunking()))

    async def found(mode: Mode) -> set[str]:
        return {
            question
            for question, pages in QUESTIONS.items()
            if pages & {hit.path for hit in await shelf.ask(question, k=5, mode=mode)}
        }

    by_both, by_meaning, by_words = [await found(mode) for mode in ("hybrid", "vector", "words")]

    missed = QUESTIONS.keys() - by_both
    assert len(by_both) >= 0.8 * len(QUESTIONS), missed
    assert len(by_both) >= max(len(by_meaning), len(by_words)), missed
