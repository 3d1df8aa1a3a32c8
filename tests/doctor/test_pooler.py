"""A pooler between: found, and in which mode."""

import shutil

import pytest

from tests.doctor.examined import OK, Examined
from tests.fixtures.database import Database
from tests.fixtures.pgbouncer import PROGRAM, is_between, pgbouncer


@pytest.fixture
def _program(monkeypatch: pytest.MonkeyPatch) -> None:
    if is_between():
        return
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    monkeypatch.setenv(PROGRAM, program)


async def test_a_direct_connection_is_told_as_such(examined: Examined) -> None:
    [finding] = await examined("pooler")
    assert (finding.verdict, finding.remedy) == (OK, "")


@pytest.mark.usefixtures("_program")
@pytest.mark.parametrize(
    ("mode", "seen"),
    [("transaction", "There is a pooler in transaction mode"), ("session", "a backend of its own")],
)
async def test_pgbouncer_is_told_with_its_mode(database: Database, mode: str, seen: str) -> None:
    async with pgbouncer(database.url, pool_mode=mode) as bouncer:
        [finding] = await Examined(bouncer.url(database.url))("pooler")
    assert finding.verdict is OK
    assert seen in finding.seen


@pytest.mark.usefixtures("_program")
async def test_everything_can_be_examined_through_pgbouncer(database: Database) -> None:
    async with pgbouncer(database.url) as bouncer:
        report = await Examined(bouncer.url(database.url)).report()
    verdicts = {result.check.name: result.verdict for result in report.results}
    assert {name for name, verdict in verdicts.items() if verdict is not OK} == {
        "settings",  # the test server's
        "workers",
        "versions",
        "leader",
        "notifications",
    }
