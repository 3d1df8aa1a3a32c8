"""Penstock and PgQueuer in turn, in one run on one server: `python benchmarks/peers.py --help`.

Each works off the same number of no-op jobs with one worker process under uvloop. Penstock has its
default settings; for PgQueuer several are tried first, and the fastest are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from pgqueuer_place import PgQueuerPlace, open_pgqueuer
from pgqueuer_settings import VARIANTS, Settings
from rich.console import Console
from rich.table import Table

from penstock.bench.drain import CEILING, Drain, drain, typical
from penstock.bench.enqueue import single_rate
from penstock.bench.ground import Ground, open_ground
from penstock.bench.latency import pick_up
from penstock.bench.live import Live
from penstock.bench.place import Place
from penstock.bench.plan import Plan
from penstock.bench.rounds import rate, tenths
from penstock.bench.server import Server, machine
from penstock.config import Database
from penstock.worker.process import run


@dataclass
class Measured:
    """One queue's results, round by round."""

    name: str
    place: Place
    live: Live
    plan: Plan
    bulk: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    free: list[Drain] = field(default_factory=list)
    held: list[Drain] = field(default_factory=list)

    async def free_drain(self) -> None:
        await self._refill()
        await self._drain("drain", self.free)

    async def held_drain(self) -> None:
        await self._refill()
        async with self.place.held_snapshot():
            await self._drain("drain under a held snapshot", self.held)

    async def singles(self) -> None:
        with self.live.doing(f"{self.name}: enqueue one by one"):
            self.single.append(await single_rate(self.place, self.plan.single_jobs))
        self.live.result(f"{self.name}: enqueue one by one", f"{self.single[-1]:>10,.0f} jobs/s")

    async def _refill(self) -> None:
        with self.live.doing(f"{self.name}: enqueue in bulk"):
            self.bulk.append(self.plan.jobs / await self.place.refill(self.plan.jobs))

    async def _drain(self, what: str, into: list[Drain]) -> None:
        with self.live.doing(f"{self.name}: {what}"):
            into.append(
                await drain(
                    self.place,
                    self.plan.jobs,
                    lambda done, _: self.live.progress(done, self.plan.jobs),
                )
            )
        self.live.result(f"{self.name}: {what}", f"{into[-1].rate:>10,.0f} jobs/s")

    async def as_dict(self) -> dict[str, Any]:
        """All of it, with the latency, which is measured now."""
        with self.live.doing(f"{self.name}: pick-up by an idle worker"):
            latency = await pick_up(self.place, self.plan.latency_jobs, self.live)
        return {
            "drain_jobs_per_s": round(rate(self.free), 1),
            "drain_rounds": [round(one.rate, 1) for one in self.free],
            "drain_tenths": tenths(self.free),
            "held_jobs_per_s": round(rate(self.held), 1),
            "held_rounds": [round(one.rate, 1) for one in self.held],
            "held_tenths": tenths(self.held),
            "bulk_per_s": round(typical(self.bulk), 1),
            "single_per_s": round(typical(self.single), 1),
            "latency_ms": asdict(latency),
            "cpu_ms_per_1000_jobs": round(typical([one.cpu_ms_per_1000 for one in self.free]), 2),
            "max_rss_mb": round(max(one.peak_rss_mb or 0 for one in self.free), 1),
        }


async def measure(plan: Plan, database: Database, live: Live, tune: bool) -> dict[str, Any]:
    async with open_ground(database) as ground, open_pgqueuer(ground.url) as other:
        before = machine()
        ours = Measured("Penstock", ground, live, plan)
        theirs = Measured("PgQueuer", other, live, plan)
        tried = await _tune(other, plan, live) if tune else {}
        ceiling: list[Drain] = []
        for _ in range(plan.rounds):
            ceiling.append(await _ceiling(ground, plan, live))
            await ours.free_drain()
            await theirs.free_drain()
            await ours.held_drain()
            await theirs.held_drain()
            await ours.singles()
            await theirs.singles()
        results = {"penstock": await ours.as_dict(), "pgqueuer": await theirs.as_dict()}
        return {
            "jobs": plan.jobs,
            "rounds": plan.rounds,
            "ceiling_jobs_per_s": round(rate(ceiling), 1),
            **results,
            "ratios": ratios(results),
            "pgqueuer_settings": other.settings.as_dict(),
            "pgqueuer_tried_jobs_per_s": tried,
            "pgqueuer_version": version("pgqueuer"),
            **(await Server.of(ground.connection)).as_dict(),
            "machine": before,
        }


async def _tune(place: PgQueuerPlace, plan: Plan, live: Live) -> dict[str, float]:
    """Try PgQueuer's settings in turn on a fifth of the jobs, and keep the fastest."""
    jobs = max(1000, plan.jobs // 5)
    rates: dict[Settings, list[float]] = {settings: [] for settings in VARIANTS}
    for _ in range(plan.rounds):
        for settings, seen in rates.items():
            place.settings = settings
            await place.refill(jobs)
            with live.doing(f"PgQueuer, {settings}"):
                seen.append((await drain(place, jobs, lambda *_: None)).rate)
    typically = {settings: typical(seen) for settings, seen in rates.items()}
    for settings, found in typically.items():
        live.result(f"PgQueuer, {settings}", f"{found:>10,.0f} jobs/s")
    place.settings = max(typically, key=lambda settings: typically[settings])
    return {str(settings): round(found, 1) for settings, found in typically.items()}


async def _ceiling(ground: Ground, plan: Plan, live: Live) -> Drain:
    await ground.refill(plan.jobs)
    with live.doing("ceiling"):
        one = await drain(
            ground, plan.jobs, lambda done, _: live.progress(done, plan.jobs), command=CEILING
        )
    live.result("ceiling", f"{one.rate:>10,.0f} jobs/s")
    return one


RATES = ("drain_jobs_per_s", "held_jobs_per_s", "bulk_per_s", "single_per_s")


def ratios(results: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Penstock's rates over PgQueuer's; of times and memory, its share of PgQueuer's."""
    ours, theirs = results["penstock"], results["pgqueuer"]
    whole = {key: ours[key] / theirs[key] for key in (*RATES, "cpu_ms_per_1000_jobs")}
    whole["latency_p50"] = ours["latency_ms"]["p50"] / theirs["latency_ms"]["p50"]
    whole["max_rss_mb"] = ours["max_rss_mb"] / theirs["max_rss_mb"]
    return {key: round(value, 3) for key, value in whole.items()}


def table(document: Mapping[str, Any]) -> Table:
    made = Table("", "Penstock", "PgQueuer", "ratio", title=f"{document['jobs']:,} jobs")
    ours, theirs, share = document["penstock"], document["pgqueuer"], document["ratios"]
    for name, key, digits in ROWS:
        made.add_row(
            name, f"{ours[key]:,.{digits}f}", f"{theirs[key]:,.{digits}f}", f"{share[key]:.2f}"
        )
    made.add_row(
        "pick-up, median, ms",
        f"{ours['latency_ms']['p50']:.2f}",
        f"{theirs['latency_ms']['p50']:.2f}",
        f"{share['latency_p50']:.2f}",
    )
    return made


ROWS: Sequence[tuple[str, str, int]] = (
    ("drain, jobs/s", "drain_jobs_per_s", 0),
    ("drain under a held snapshot, jobs/s", "held_jobs_per_s", 0),
    ("enqueue in bulk, jobs/s", "bulk_per_s", 0),
    ("enqueue one by one, jobs/s", "single_per_s", 0),
    ("worker CPU per 1,000 jobs, ms", "cpu_ms_per_1000_jobs", 1),
    ("worker memory at most, MB", "max_rss_mb", 0),
)


def main(
    jobs: Annotated[int, typer.Option(help="How many jobs each drain works off.")] = 100_000,
    rounds: Annotated[int, typer.Option(help="How often; the medians are shown.")] = 3,
    database_url: Annotated[
        str | None, typer.Option(envvar="PENSTOCK_DATABASE_URL", show_default=False)
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="PENSTOCK_DATA_DIR", show_default=False)
    ] = None,
    tune: Annotated[bool, typer.Option(help="Try out PgQueuer's settings first.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare Penstock with PgQueuer, in schemas of their own that are dropped at the end."""
    database = Database.of(database_url, data_dir=None if data_dir is None else str(data_dir))
    document = run(measure(Plan(jobs=jobs, rounds=rounds), database, Live(), tune))
    if as_json:
        typer.echo(json.dumps(document))
    else:
        Console().print(table(document))


if __name__ == "__main__":
    typer.run(main)
