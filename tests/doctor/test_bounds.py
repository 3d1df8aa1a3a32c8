"""A doctor must not hurt a sick database, and one check must not stop the next."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from penstock.doctor import CHECKS, CheckLimits, Report, examine
from penstock.doctor.check import CheckContext
from penstock.sql import statement
from penstock.store import bounded
from tests.doctor.examined import ERROR, OK, SKIPPED, WARNING, Examined
from tests.fixtures.database import Database, connected
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until


async def test_slow_check_is_given_up_and_others_go_on(
    database: Database, examined: Examined
) -> None:
    async def given_up_alone() -> Report | None:
        report = await examined.report("clock", "workers", "overdue-jobs", reading=0.5)
        verdicts = {result.check.name: result.verdict for result in report.results}
        alone = {"clock": OK, "workers": WARNING, "overdue-jobs": OK}
        return report if verdicts == alone else None

    async with connected(database.url) as migration:
        await migration.execute("BEGIN")
        await migration.execute("LOCK TABLE penstock.lease IN ACCESS EXCLUSIVE MODE")
        # A busy machine may now and then keep another one as long.
        report = await until(given_up_alone, what="one check alone to take too long")
    assert "no answer within 500 ms" in report.results[1].findings[0].seen


async def test_a_database_that_falls_silent_does_not_keep_the_doctor(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall_silent() -> None:
        monkeypatch.setattr(bounded, "TIMEOUT_GRACE_S", 0.2)
        proxy.swallow()

    async with asyncio.timeout(60):
        report = await _examined_while(proxy, fall_silent)
    proxy.heal()
    assert [result.verdict for result in report.results[-2:]] == [ERROR, SKIPPED]


async def test_broken_connection_is_reported_and_the_rest_skipped(proxy: Proxy) -> None:
    report = await _examined_while(proxy, proxy.cut)
    assert [result.verdict for result in report.results[-2:]] == [ERROR, SKIPPED]
    assert "The connection broke" in report.results[-2].findings[0].seen


async def _examined_while(proxy: Proxy, fault: Callable[[], None]) -> Report:
    """An examination in the middle of which a fault happens."""
    by_name = {check.name: check for check in CHECKS}
    workers = by_name["workers"]

    async def read_after_the_fault(context: CheckContext) -> Any:
        fault()
        return await workers.read(context)

    faulty = replace(workers, read=read_after_the_fault)
    return await examine(
        proxy.url,
        checks=[by_name["clock"], faulty, by_name["stuck-jobs"]],
        limits=CheckLimits(reading=0.3),
    )


async def test_serializable_database_can_be_examined(
    database: Database, examined: Examined
) -> None:
    async with connected(database.admin_url) as admin:
        await admin.execute(
            f"ALTER DATABASE {database.name} SET default_transaction_isolation = serializable"
        )
    report = await examined.report("workers", "stuck-jobs", "partitions")
    assert [result.verdict for result in report.results] == [OK, WARNING, OK]


EXAMINED_JOBS = [
    ("examine_stuck_jobs", [10_000]),
    ("examine_overdue_jobs", [10_000]),
    ("examine_schedules", [10_000]),
    ("examine_ready_jobs", [100]),
    ("examine_lost_jobs", [10_000]),
    ("examine_overtime_jobs", [60.0, 10_000]),
    ("examine_waiting_jobs", [100, 5]),
    ("examine_failures", [10_000]),
    ("examine_lanes", [100, 100]),
    ("examine_late_jobs", [100]),
    ("examine_idle_grants", [10_000]),
    ("examine_batches", [86_400.0, 300.0, 10_000]),
]


@pytest.mark.parametrize(("name", "values"), EXAMINED_JOBS)
async def test_no_table_of_jobs_is_read_from_end_to_end(
    connection: asyncpg.Connection, name: str, values: list[object]
) -> None:
    await connection.execute(
        "INSERT INTO penstock.job (state, ready_at, run_at, task) "
        "SELECT 'ready', now(), now(), 'work' FROM generate_series(1, 2000) "
        "UNION ALL "
        "SELECT 'scheduled', NULL, now() + interval '1 day', 'work' FROM generate_series(1, 2000)"
    )
    await connection.execute("ANALYZE penstock.job")
    async with connection.transaction():
        await connection.fetch(statement("limit_reads", ""), "5000ms")
        rows = await connection.fetch(f"EXPLAIN {statement(name, 'penstock')}", *values)
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan on job" not in plan, plan
