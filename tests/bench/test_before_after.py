"""Plain jobs before and after a change: both are run from their own files."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.before_after import document
from benchmarks.before_after.commit import Commit, checked_out
from benchmarks.before_after.table import table
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.environment import ROOT, CannotInstall
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import Postgres
from benchmarks.page import before_after
from penstock.bench.live import Live
from tests.fixtures.server import PostgresServer

# Measures for a while: a part of the long form, as other loads are.
long = pytest.mark.skipif("PENSTOCK_LONG" not in os.environ, reason="PENSTOCK_LONG is not set")

NOW = Commit("now", ROOT)


@pytest.fixture
async def server(postgres: PostgresServer) -> AsyncIterator[Postgres]:
    async with Postgres.connect(postgres.admin_url, postgres.url) as server:
        yield server


@long
async def test_both_are_measured_in_every_round(server: Postgres) -> None:
    plan = Plan(rounds=1, single_jobs=20, tune=False)
    found = await document.measure(server, plan, Live(), [Commit("old", NOW.folder), NOW], 200)

    assert (found["before"], found["now"]) == ("old", "now")
    for name in ("drain_per_s", "held_per_s", "single_per_s", "worker_cpu_ms"):
        before, now, ratio = (
            found["rows"][name][key]["median"] for key in ("before", "now", "ratio")
        )
        assert ratio == pytest.approx(now / before, rel=0.01), name
    assert found["rows"]["bulk_per_s"]["ratio"]["median"] > 0
    assert table(found).row_count == len(found["rows"])
    assert "| drain, jobs/s |" in before_after.rates(found)


@pytest.mark.parametrize("package", ["src/penstock", "benchmarks"])
def test_each_is_imported_from_its_own_files(tmp_path: Path, package: str) -> None:
    (tmp_path / package).mkdir(parents=True)
    if package != "benchmarks":
        (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (tmp_path / package / "__init__.py").write_text("raise ImportError('half a commit')")

    with pytest.raises(CannotInstall, match="half a commit"):
        Entrant.asked("penstock", sys.executable, Commit("half", tmp_path).sources)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the files are not in a repository")
def test_a_commit_is_looked_at_in_a_folder_that_is_gone_afterwards() -> None:
    with checked_out("HEAD") as commit:
        package, benchmarks = commit.sources
        assert (package / "penstock" / "__init__.py").is_file()
        assert (benchmarks / "benchmarks" / "peers" / "__main__.py").is_file()
    assert not commit.folder.exists()


def test_a_commit_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit, match="no-such-commit"), checked_out("no-such-commit"):
        pass
