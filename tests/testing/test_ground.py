"""Only a database that is there for tests is worked off and moved in time."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.testing import (
    NotForTests,
    advance,
    advance_to,
    drain,
    enqueued,
    faults,
    for_tests,
    led_to,
)
from penstock.testing import sync as blocking
from tests.fixtures.database import Database

CHANGES: dict[str, Callable[[Penstock], Awaitable[object]]] = {
    "drain": drain,
    "advance": lambda app: advance(app, days=3),
}


def shop(url: str) -> Penstock:
    app = Penstock(url)

    @app.task(name="charge")
    async def charge() -> str:
        return "charged"

    return app


@pytest.mark.parametrize("name", CHANGES)
async def test_the_program_s_own_database_is_refused(
    app_of_the_program: Penstock, name: str
) -> None:
    with pytest.raises(
        NotForTests, match=rf"^{name} may change .* penstock_app, .*led_to\(.*for_tests\("
    ):
        await CHANGES[name](app_of_the_program)


async def test_what_is_refused_leaves_the_jobs_as_they_were(app_of_the_program: Penstock) -> None:
    app = app_of_the_program

    @app.task(name="charge")
    async def charge() -> None:
        raise AssertionError("A job of the program has run in a test.")

    job = await app.enqueue(charge.options(delay=60))
    before = await app.get(job)
    assert before.run_at is not None
    with pytest.raises(NotForTests):
        await drain(app, scheduled=True, faults=[faults.LoseWorker(charge)])
    with pytest.raises(NotForTests):
        await advance_to(app, before.run_at)
    assert await app.get(job) == before


def test_blocking_tools_refuse_it_too(database: Database) -> None:
    app = shop(database.url)
    try:
        with pytest.raises(NotForTests):
            blocking.drain(app)
    finally:
        app.sync.close()


async def test_one_is_for_tests_if_it_is_said_to_be(app_of_the_program: Penstock) -> None:
    for_tests(app_of_the_program)
    await advance(app_of_the_program, days=1)
    assert (await drain(app_of_the_program)).settled == 0


def test_an_app_that_is_led_back_is_refused_again(database: Database) -> None:
    app = shop("postgresql://nobody@nowhere/production")
    with led_to(app, database.url):
        app.sync.enqueue(app.tasks.get("charge"))
        assert blocking.drain(app).completed == 1
    with pytest.raises(NotForTests):
        blocking.drain(app)
    app.sync.close()


def test_an_embedded_database_is_known_by_its_folder(tmp_path: Path) -> None:
    for_tests(Penstock(data_dir=tmp_path / "one"))
    other = Penstock(data_dir=tmp_path / "two")
    with pytest.raises(NotForTests):
        blocking.drain(other)
    other.sync.close()


async def test_looking_changes_nothing_and_is_not_refused(app_of_the_program: Penstock) -> None:
    assert await enqueued(app_of_the_program) == []
