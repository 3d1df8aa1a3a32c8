"""Commands that look at a queue make none, on an embedded Postgres either."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator

import asyncpg
import pytest

from penstock.embedded import Server
from tests.fixtures.forking import forker

SCHEMAS = "SELECT array_agg(nspname ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|i)'"

LOOKS = (
    ["jobs", "list"],
    ["stats"],
    ["queues", "list"],
    ["enqueue", "shop.greet"],
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("embedded") / "data")
    assert penstock(server, "db", "start").returncode == 0
    yield server
    server.stop("immediate")


def penstock(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PENSTOCK_DATA_DIR": str(server.data_dir)}
    folder = server.data_dir.parent
    return forker().run(list(arguments), folder, os.environ | environment, stdin="")


async def schemas(server: Server) -> list[str]:
    connection = await asyncpg.connect(server.url())
    try:
        found: list[str] = await connection.fetchval(SCHEMAS)
        return found
    finally:
        await connection.close()


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_a_schema_that_is_not_there_is_missed_and_not_made(server: Server, look: list[str]) -> None:
    before = asyncio.run(schemas(server))
    refused = penstock(server, *look, "--schema", "nosuch", "--json")
    assert refused.returncode == 1
    assert (
        "no Penstock tables in the schema 'nosuch'"
        in json.loads(refused.stdout)["error"]["message"]
    )
    assert asyncio.run(schemas(server)) == before


def test_db_start_makes_a_queue_that_can_be_looked_at(server: Server) -> None:
    assert json.loads(penstock(server, "jobs", "list", "--json").stdout)["jobs"] == []
