"""The document says all that the API answers: schemathesis asks, and compares."""

import asyncio
import os
import re
import sys
from pathlib import Path

import httpx
import pytest

from penstock import Penstock
from penstock.service import Service
from penstock.service.bounds import Bounds
from tests.fixtures.service import OpenDoor, serving

IS_LONG = bool(os.environ.get("PENSTOCK_LONG"))
# Left out, since the document cannot say it all: a schema knows no task's signature, no cron and
# no "either ids or a filter", so a body that fits it may be refused (positive_data_acceptance);
# here everybody is let in (ignored_auth).
LEFT_OUT = "positive_data_acceptance,ignored_auth"
# Streams do not end; a stranger's logins are limited.
NOT_ASKED = "/live|/login|/logout"


@pytest.mark.timeout(900 if IS_LONG else 120)
async def test_schemathesis_finds_no_answer_that_is_not_in_the_document(
    app: Penstock, tmp_path: Path
) -> None:
    @app.task(name="greet")
    async def greet(name: str, times: int = 1) -> None: ...

    async with Service(app, door=OpenDoor(), bounds=Bounds()) as service, serving(service) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/v1/openapi.json"),
            *("--max-examples", "100" if IS_LONG else "2", "--phases", "fuzzing,coverage"),
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


async def test_the_document_names_every_answer_of_a_route_that_takes_a_body(
    http: httpx.AsyncClient,
) -> None:
    document = (await http.get("/openapi.json")).json()

    answers = document["paths"]["/api/v1/jobs"]["post"]["responses"]
    assert {"202", "400", "401", "403", "408", "409", "413", "415", "422", "503"} <= set(answers)
