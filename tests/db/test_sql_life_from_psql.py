"""A job's whole life from plain psql: nothing of Python is needed to work on the queue."""

import asyncio
import os
import subprocess
from pathlib import Path

from penstock.embedded.install import Binaries
from tests.fixtures.database import Database
from tests.fixtures.server import BINARIES

LIFE = r"""
\set ON_ERROR_STOP on
SET search_path = penstock;

SELECT enqueue('resize', '{"image": 7}', priority => 3) AS job \gset
SELECT open_lease_v1('psql', 60) AS lease \gset

SELECT id AS job, token, attempt
  FROM claim_v1(:lease, 'default', '{""}', '{3}', '{-infinity}', '{0}', NULL, 10) \gset first_
SELECT alive, signals FROM heartbeat_v1(:lease, 60);

SELECT count(*) AS unsettled FROM settle_v1(
    ARRAY[:first_job]::bigint[], ARRAY[:'first_token']::uuid[], '{scheduled}', '{busy}', '{0}',
    p_failures => '{1}', p_errors => ARRAY['{"type": "Busy"}']);
SELECT state, failures, errors -> 0 ->> 'type' FROM job_all WHERE id = :job;
SELECT promoted FROM promote_v1();

SELECT id AS job, token, attempt
  FROM claim_v1(:lease, 'default', '{""}', '{3}', '{-infinity}', '{0}', NULL, 10) \gset second_
SELECT count(*) AS unsettled FROM settle_v1(
    ARRAY[:second_job]::bigint[], ARRAY[:'second_token']::uuid[],
    p_results => ARRAY['{"width": 640}']);
SELECT answer FROM settle_v1(ARRAY[:first_job]::bigint[], ARRAY[gen_random_uuid()]);

SELECT state, attempt, failures, args ->> 'image', result ->> 'width', finished_at IS NOT NULL
  FROM job_all WHERE id = :job;
SELECT close_lease_v1(:lease);
SELECT count(*) FROM job;
"""

WHAT_PSQL_SHOWS = """
t|[]
0
scheduled|1|Busy
1
0
refused
completed|2|1|7|640|t
0
0
"""


def psql(url: str, script: str) -> str:
    folder = os.environ.get(BINARIES)
    program = Binaries.find(Path(folder) if folder else None).program("psql")
    run = subprocess.run(
        [program, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", url],
        input=script,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


async def test_psql_alone_enqueues_claims_retries_and_completes_a_job(database: Database) -> None:
    shown = await asyncio.to_thread(psql, database.url, LIFE)
    assert shown.split() == WHAT_PSQL_SHOWS.split()
