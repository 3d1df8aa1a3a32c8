"""`penstock bench`: its document has the promised shape, and the queue of the user is untouched."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.bench.sandbox import SandboxServer as Described
from penstock.bench.sandbox import open_sandbox
from penstock.config import Database as Settings
from penstock.embedded import Server
from tests.fixtures.database import Database

# It measures with several processes, one after the other: a slow machine has its time.
pytestmark = pytest.mark.timeout(400)

# Measures for a while: a part of the long form, as other loads are.
long = pytest.mark.skipif("PENSTOCK_LONG" not in os.environ, reason="PENSTOCK_LONG is not set")

SCHEMAS = "SELECT nspname FROM pg_namespace ORDER BY 1"
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
SHORT = ("--jobs", "1000", "--rounds", "1", "--json")


async def bench(database: Database | None, *options: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    where = () if database is None else ("--database-url", database.url)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock.cli", "bench", *where, *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def positive(*numbers: Any) -> bool:
    return all(isinstance(number, (int, float)) and number > 0 for number in numbers)


async def test_bench_prints_its_document_and_leaves_nothing_behind(database: Database) -> None:
    async with database.connect() as connection:
        before = await connection.fetch(SCHEMAS)
        fsync = await connection.fetchval("SHOW fsync")
    code, out, err = await bench(database, *SHORT)

    assert code == 0, err
    document = json.loads(out)
    drain, held, latency = document["drain"], document["held"], document["latency_ms"]
    assert positive(drain["jobs_per_s"], drain["ceiling_jobs_per_s"], drain["ratio"])
    assert drain["ratio"] == pytest.approx(
        drain["jobs_per_s"] / drain["ceiling_jobs_per_s"], abs=0.002
    )
    assert positive(held["jobs_per_s"], held["last_over_first"], held["over_free"])
    assert len(held["tenths"]) == len(drain["tenths"]) == 10
    assert positive(document["enqueue"]["single_per_s"], document["enqueue"]["bulk_per_s"])
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] < 10_000
    assert positive(document["ceiling_overlapped"]["jobs_per_s"])
    assert positive(document["cpu_ms_per_1000_jobs"], document["max_rss_mb"])
    assert document["python"] == sys.version.split()[0]
    assert document["postgres"].split(".")[0].isdigit()
    assert document["full_page_writes"] in ("on", "off")
    assert document["synchronous_commit"] == "on"
    # A server that may lose commits is called so.
    assert document["fsync"] == fsync
    assert ("may lose confirmed commits" in " ".join(err.split())) is (fsync == "off")
    async with database.connect() as connection:
        assert await connection.fetch(SCHEMAS) == before
        assert await connection.fetchval("SELECT count(*) FROM penstock.job_all") == 0


@long
async def test_the_longer_measurements_are_added_when_asked_for(database: Database) -> None:
    extras = ("--processes", "2", "--backlog", "3000", "--soak", "10000", "--dead", "10000")
    code, out, err = await bench(database, *SHORT, *extras)

    assert code == 0, err
    document = json.loads(out)
    assert document["processes"]["count"] == 2
    assert positive(document["processes"]["ratio"])
    assert [entry["jobs"] for entry in document["backlog"]] == [1000, 3000]
    assert all(positive(entry["claim_ms"]) for entry in document["backlog"])
    assert positive(document["soak"]["rss_mb_at_tenth"], document["soak"]["rss_mb_at_end"])
    assert document["dead"]["entries"] == 10_000
    assert positive(document["dead"]["over_free"], document["dead"]["first_claim_s"])


async def test_embedded_server_of_bench_is_durable_and_stops(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    async with open_sandbox(Settings.of(None, data_dir=str(folder))) as sandbox:
        document = (await Described.of(sandbox.connection)).as_dict()
        assert Server(folder).status().running

    assert [document[setting] for setting in DURABLE] == ["on"] * 3
    assert not Server(folder).status().running


@long
async def test_the_command_starts_the_embedded_server_and_stops_it(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    code, out, err = await bench(None, *SHORT, "--data-dir", str(folder))

    assert code == 0, err
    assert [json.loads(out)[setting] for setting in DURABLE] == ["on"] * 3
    assert "may lose confirmed commits" not in " ".join(err.split())
    assert not Server(folder).status().running


async def test_a_database_that_does_not_answer_is_named_in_one_message() -> None:
    code, _, err = await bench(None, "--database-url", "postgresql://localhost:1/nothing")

    assert code == 1
    assert "cannot use this database" in err
    assert "Traceback" not in err
