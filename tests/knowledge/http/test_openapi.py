"""The document says all that the routes of knowledge answer: schemathesis asks, and compares.

In the short form the other tests do: see `http` in conftest.py.
"""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import httpx
import pytest

from tests.knowledge.http.conftest import document
from tests.knowledge.scene import Scene

IS_LONG = bool(os.environ.get("PENSTOCK_LONG"))
# A form is no JSON, and a body that fits its schema may be refused; here everybody is let in.
LEFT_OUT = "positive_data_acceptance,ignored_auth"
# Its parts are for a client that writes forms; an address is told of until its end.
NOT_ASKED = "/upload/documents|/upload/url"
CONFIG = """
[dictionaries]
{dictionaries}

[[operations]]
include-path-regex = "/knowledge-bases/"
parameters = {{ "path.id" = {{ dictionary = "bases", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/knowledge-sources/"
parameters = {{ "path.id" = {{ dictionary = "sources", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/documents/"
parameters = {{ "path.id" = {{ dictionary = "documents", probability = 0.8 }} }}
"""


@pytest.mark.skipif(not IS_LONG, reason="PENSTOCK_LONG: it asks for minutes")
@pytest.mark.usefixtures("quick")
@pytest.mark.timeout(900)
async def test_openapi_documents_every_answer_that_schemathesis_finds(
    scene: Scene, server: str, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    library = scene.knowledge.of(scene.runtime)
    receipt = await scene.bring(library, {"a.md": "# Water", "b.md": "# Fire", "c": ""})
    known = {
        "bases": ["handbook", str((await library.base("handbook")).id)],
        "sources": [str(receipt.source)],
        "documents": [str(each.id) for each in receipt.documents],
    }
    lines = [f"{name} = {{ values = {json.dumps(values)} }}" for name, values in known.items()]
    (tmp_path / "schemathesis.toml").write_text(CONFIG.format(dictionaries="\n".join(lines)))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server}/api/v1/openapi.json"),
        *("--max-examples", "10", "--phases", "fuzzing,coverage"),
        *("--checks", "all", "--exclude-checks", LEFT_OUT, "--exclude-path-regex", NOT_ASKED),
        *("--include-tag", "knowledge", "--no-color", "--continue-on-failure"),
        *("--generation-database", "none"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()

    assert process.returncode == 0, told.decode()
    [operations] = re.findall(r"Tested: (\d+)", told.decode())
    assert int(operations) > 14


def test_all_that_the_document_refers_to_is_in_it() -> None:
    named = re.findall(r"#/components/schemas/([^\"]+)", json.dumps(document()))
    assert set(named) <= set(document()["components"]["schemas"])
