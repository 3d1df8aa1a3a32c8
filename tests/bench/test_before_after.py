"""Before and after a change: both are run from their own files, by the names that they have."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.before_after import __main__ as command
from benchmarks.before_after import adapters, side
from benchmarks.before_after.adapters import peer_of
from benchmarks.before_after.commit import Commit, checked_out, is_known
from benchmarks.before_after.document import BeforeAfter, Sides
from benchmarks.before_after.ratio import Ratio, interval
from benchmarks.before_after.scenes import SCENES
from benchmarks.before_after.scenes.ingest import write
from benchmarks.before_after.table import sentence, tables
from benchmarks.before_after.verdict import Verdict, judge, judged, worst
from benchmarks.comparison.environment import ROOT, CannotInstall
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import Postgres
from benchmarks.page import before_after
from penstock.bench.report import LiveLine
from tests.fixtures.server import PostgresServer

# Measures for a while: a part of the long form, as other loads are.
long = pytest.mark.skipif("PENSTOCK_LONG" not in os.environ, reason="PENSTOCK_LONG is not set")
in_repository = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="the files are not in a repository"
)

NOW = Commit("now", ROOT)
SAME = Ratio(1.0, 0.98, 1.02)


@pytest.fixture
async def server(postgres: PostgresServer) -> AsyncIterator[Postgres]:
    async with Postgres.connect(postgres.admin_url, postgres.url) as server:
        yield server


def measured(**ratios: Ratio) -> dict[str, Any]:
    """A document of one scene, in which the older commit is as fast as itself."""
    spread = {"median": 100.0, "least": 90.0, "most": 110.0}
    rows = {
        key: {
            "before": spread,
            "now": spread,
            "ratio": ratio.as_dict(),
            "spread": SAME.as_dict(),
        }
        for key, ratio in ratios.items()
    }
    scenes = {"plain": {"jobs": 100, "rows": rows}}
    return {"before": "old", "now": "new", "rounds": 5, "scenes": scenes}


# The run itself


@long
@pytest.mark.timeout(600)
async def test_all_scenes_are_measured_with_all_sides(server: Postgres) -> None:
    plan = Plan(rounds=1, single_jobs=20, tune=False)
    measuring = BeforeAfter(server, plan, LiveLine(), Sides(Commit("old", ROOT), NOW))
    found = judged(await measuring.measure(list(SCENES.values()), 400))

    assert (found["before"], found["now"]) == ("old", "now")
    for name, scene in SCENES.items():
        rows = found["scenes"][name]["rows"]
        for key in ("drain_per_s", "worker_cpu_ms"):
            row = rows[key]
            median = row["now"]["median"] / row["before"]["median"]
            assert row["ratio"]["median"] == pytest.approx(median, rel=0.01), (name, key)
            assert row["spread"]["median"] > 0, (name, key)
        assert rows.keys() >= {key for key, _, _ in scene.rows} - NOT_EVERYWHERE, name
    ingested = found["scenes"]["ingest"]["rows"]
    assert ingested["embed_calls"]["now"]["median"] == found["scenes"]["ingest"]["jobs"]
    assert ingested["chunks"]["ratio"]["median"] == 1
    assert "| drain, jobs/s |" in before_after.rates(found)


# Of few jobs Postgres may use no tick of the clock; the others are of other measurements.
NOT_EVERYWHERE = {
    "postgres_cpu_ms",
    "held_per_s",
    "two_processes_per_s",
    "single_per_s",
    "pick_up_p50_ms",
    "pick_up_p99_ms",
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_present_files_can_be_driven(scene: str) -> None:
    entrant = side.entrant(NOW, scene, 100, "now")
    assert (entrant.facts.name, entrant.facts.jobs) == ("now", 100)
    assert "penstock.job" in entrant.facts.left


# Whose files are run


def test_each_is_imported_from_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "src" / "penstock").mkdir(parents=True)
    (tmp_path / "src" / "penstock" / "__init__.py").write_text("raise ImportError('half a commit')")

    with pytest.raises(CannotInstall, match="half a commit"):
        side.entrant(Commit("half", tmp_path), "plain", 100, "half")


def test_commit_without_adapters_uses_those_of_the_base(tmp_path: Path) -> None:
    command = side.start(Commit("old", tmp_path), "limits")
    assert command[-2:] == ("base", "limits")
    assert f"PYTHONPATH={tmp_path / 'src'}:{ROOT}" in command


def test_a_commit_with_adapters_is_driven_by_its_own(tmp_path: Path) -> None:
    (tmp_path / "benchmarks" / "before_after" / "adapters").mkdir(parents=True)
    command = side.start(Commit("later", tmp_path), "limits")
    assert command[-2:] == ("present", "limits")
    assert f"PYTHONPATH={tmp_path / 'src'}:{tmp_path}" in command


def test_renamed_scene_uses_the_adapter_of_its_new_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "renamed").mkdir()
    (tmp_path / "renamed" / "__init__.py").touch()
    (tmp_path / "renamed" / "limits.py").write_text("PEER = 'the new names'")
    monkeypatch.setattr(adapters, "__path__", [*adapters.__path__, str(tmp_path)])

    assert peer_of("renamed", "limits") == "the new names"
    assert peer_of("renamed", "plain") is peer_of("base", "plain")
    for name in ("renamed", "renamed.limits"):
        monkeypatch.delitem(sys.modules, f"{adapters.__name__}.{name}")


@in_repository
def test_checked_out_commit_is_removed_afterwards() -> None:
    with checked_out("HEAD") as commit:
        assert (commit.folder / "src" / "penstock" / "__init__.py").is_file()
        assert (commit.folder / "benchmarks" / "peers" / "__main__.py").is_file()
    assert not commit.folder.exists()


def test_a_commit_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SystemExit, match="no-such-commit"), checked_out("no-such-commit"):
        pass


@in_repository
def test_quick_run_skips_a_commit_missing_from_a_shallow_clone() -> None:
    assert is_known("HEAD")
    app = typer.Typer()
    app.command()(command.main)
    ended = CliRunner().invoke(app, ["--quick", "--before", "no-such-commit"])
    assert ended.exit_code == 0
    assert ended.output.startswith("LEFT OUT")


def test_a_scene_that_does_not_exist_is_refused() -> None:
    app = typer.Typer()
    app.command()(command.main)
    ended = CliRunner().invoke(app, ["--scenes", "plain,flights"])
    assert ended.exit_code == 2


# What the numbers say


def test_interval_is_reproducible_and_within_the_ratios() -> None:
    ratios = [0.95, 0.99, 1.0, 1.01, 1.02, 1.04, 1.2]
    low, high = interval(ratios, Random(1))
    assert interval(ratios, Random(1)) == (low, high)
    assert 0.95 <= low <= 1.01 <= high <= 1.2


def test_an_interval_of_more_rounds_is_narrower() -> None:
    few, many = ([0.9, 1.0, 1.1] * times for times in (1, 20))
    wide, narrow = (interval(ratios, Random(1)) for ratios in (few, many))
    assert wide == (0.9, 1.1)
    assert narrow == (1.0, 1.0)


def test_a_ratio_is_taken_within_rounds() -> None:
    assert Ratio.of([1, 10, 100], [1.1, 11, 110]) == Ratio(1.1, 1.1, 1.1)
    assert Ratio(2.0, 1.0, 4.0).inverse == Ratio(0.5, 0.25, 1.0)


@pytest.mark.parametrize(
    ("key", "ratio", "verdict"),
    [
        ("worker_cpu_ms", Ratio(1.03, 1.0, 1.2), Verdict.no_slower),
        ("worker_cpu_ms", Ratio(1.031, 1.0, 1.2), Verdict.slower),
        ("postgres_cpu_ms", Ratio(1.1, 1.0, 1.2), Verdict.slower),
        ("postgres_cpu_ms", Ratio(0.5, 0.4, 0.6), Verdict.no_slower),
        ("drain_per_s", Ratio(0.9, 0.8, 0.97), Verdict.no_slower),
        ("drain_per_s", Ratio(0.9, 0.8, 0.96), Verdict.slower),
        ("drain_per_s", Ratio(1.5, 1.4, 1.6), Verdict.no_slower),
        ("memory_mb", Ratio(2.0, 2.0, 2.0), Verdict.no_slower),
    ],
)
def test_processor_time_and_the_interval_of_a_rate_decide(
    key: str, ratio: Ratio, verdict: Verdict
) -> None:
    found, reasons = judge({key: ratio}, {})
    assert found == verdict
    assert [reason.partition(":")[0] for reason in reasons] == [key] * len(reasons)
    assert bool(reasons) == (verdict is Verdict.slower)


@pytest.mark.parametrize("ratio", [Ratio(1.05, 1.0, 1.1), Ratio(0.95, 0.9, 1.0)])
def test_a_run_that_sees_a_commit_differ_from_itself_cannot_tell(ratio: Ratio) -> None:
    verdict, reasons = judge({"worker_cpu_ms": SAME}, {"worker_cpu_ms": ratio})
    assert verdict is Verdict.unclear
    assert "before ÷ itself" in reasons[0]


def test_what_is_slower_by_more_than_the_noise_is_slower() -> None:
    spread = {"worker_cpu_ms": Ratio(0.95, 0.9, 1.0), "drain_per_s": Ratio(1.1, 0.9, 1.2)}
    for key, within, beyond in (
        ("worker_cpu_ms", Ratio(1.08, 1.0, 1.2), Ratio(1.09, 1.0, 1.2)),
        ("drain_per_s", Ratio(0.8, 0.7, 0.89), Ratio(0.8, 0.7, 0.88)),
    ):
        assert judge({key: within}, spread)[0] is Verdict.unclear
        assert judge({key: beyond}, spread)[0] is Verdict.slower


def test_slower_in_one_scene_is_slower() -> None:
    assert worst([Verdict.no_slower, Verdict.slower, Verdict.unclear]) is Verdict.slower
    assert worst([Verdict.no_slower, Verdict.unclear]) is Verdict.unclear
    assert [verdict.exit_code for verdict in Verdict] == [0, 4, 3]


def test_the_table_says_in_a_line_what_is_slower() -> None:
    document = judged(measured(drain_per_s=SAME, worker_cpu_ms=Ratio(1.2, 1.1, 1.3)))
    # As it is stored, and read again.
    assert json.loads(json.dumps(document))["scenes"]["plain"]["verdict"] == "slower"
    assert sentence(document) == "new is SLOWER than old: plain."
    console = Console(width=130)
    with console.capture() as shown:
        console.print(*tables(document))
    assert "worker CPU per 1,000 jobs, ms: the ratio is 1.200, and may be 1.03" in shown.get()
    assert sentence(judged(measured(drain_per_s=SAME))) == "new is no slower than old: plain."


def test_documents_are_the_same_every_time(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "other"):
        assert write(tmp_path / name, 700) == 700
        texts.append([file.read_text() for file in sorted((tmp_path / name).iterdir())])
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 690
