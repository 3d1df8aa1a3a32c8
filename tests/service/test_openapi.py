"""The document says all that the API answers: schemathesis asks, and compares."""

import asyncio
import json
import os
import re
import sys
from inspect import cleandoc
from pathlib import Path

import asyncpg
import httpx
import pytest

from penstock import Penstock, Workflow
from penstock.insights import Thresholds
from penstock.service import Service
from tests.fixtures.dead import dead
from tests.fixtures.service import OpenDoor, serving

IS_LONG = bool(os.environ.get("PENSTOCK_LONG"))
# Left out, since the document cannot say it all: a schema knows no task's signature, no cron and
# no "either ids or a filter", so a body that fits it may be refused (positive_data_acceptance);
# here everybody is let in (ignored_auth).
LEFT_OUT = "positive_data_acceptance,ignored_auth"
# Streams do not end; a stranger's logins are limited.
NOT_ASKED = "/live|/login|/logout"


# What there is, so that more than 404s are seen.
CONFIG = """
[dictionaries]
{dictionaries}

[[operations]]
include-path-regex = "/jobs/"
parameters = {{ "path.id" = {{ dictionary = "jobs", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/batches/"
parameters = {{ "path.id" = {{ dictionary = "batches", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/workflows/"
parameters = {{ "path.id" = {{ dictionary = "workflows", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/schedule(/.*)?$"
parameters = {{ "query.name" = {{ dictionary = "schedules", probability = 0.8 }} }}
"""
# All operations are asked by chance; the long form also goes over every edge of each schema, of
# which there are thousands. The short one does so for a few that differ: a list, a body, an id.
FEW = """
[[operations]]
exclude-path-regex = "/dead$|/limits$|/batches/"
phases = { coverage = { enabled = false } }
"""


async def furnished(app: Penstock, connection: asyncpg.Connection) -> str:
    """Something of each kind; the configuration that names it."""

    @app.task(name="greet")
    async def greet(name: str, times: int = 1) -> None: ...

    failed = await dead(connection, 10, task="greet")
    ready = await app.enqueue_many(greet.prepare("Ada") for _ in range(10))
    batches = [await app.open_batch("b") for _ in range(5)]
    workflows = []
    for _ in range(5):
        flow = Workflow("two")
        flow.add(greet.prepare("B"), after=flow.add(greet.prepare("A")))
        workflows.append((await app.start_workflow(flow)).id)
    for batch in batches:
        await batch.enqueue_many([greet.prepare("Ada")])
    await app.set_schedule("daily", what=greet.prepare("Ada"), cron="0 6 * * *")
    known = {
        "jobs": [*failed, *(job.id for job in ready)],
        "batches": [batch.id for batch in batches],
        "workflows": workflows,
        "schedules": ["daily"],
    }
    lines = [f"{name} = {{ values = {json.dumps(values)} }}" for name, values in known.items()]
    return CONFIG.format(dictionaries="\n".join(lines))


@pytest.mark.timeout(900 if IS_LONG else 300)
async def test_openapi_documents_every_answer_that_schemathesis_finds(
    app: Penstock, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    config = await furnished(app, connection)
    (tmp_path / "schemathesis.toml").write_text(config if IS_LONG else config + FEW)
    # Nobody works here, which would be a 503 of its health before the end.
    patient = Thresholds(unserved=3600, error_rate_least=1_000_000)

    async with (
        Service(app, door=OpenDoor(), thresholds=patient) as service,
        serving(service) as url,
    ):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json"),
            *("--max-examples", "100" if IS_LONG else "3", "--phases", "fuzzing,coverage"),
            *("--checks", "all", "--exclude-checks", LEFT_OUT, "--exclude-path-regex", NOT_ASKED),
            *("--no-color", "--continue-on-failure"),
            *(("--generation-database", "none") if IS_LONG else ("--generation-deterministic",)),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate()

    assert process.returncode == 0, told.decode()
    [operations] = re.findall(r"Tested: (\d+)", told.decode())
    assert int(operations) > 40


async def test_openapi_names_every_answer_of_a_route_with_a_body(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()

    answers = document["paths"]["/api/v1/jobs"]["post"]["responses"]
    assert {"202", "400", "401", "403", "408", "409", "413", "415", "422", "503"} <= set(answers)


async def test_descriptions_are_not_indented(http: httpx.AsyncClient) -> None:
    schemas = (await http.get("/openapi.json")).json()["components"]["schemas"]

    told = {name: schema.get("description", "") for name, schema in schemas.items()}
    assert {name for name, words in told.items() if cleandoc(words) != words} == set()
