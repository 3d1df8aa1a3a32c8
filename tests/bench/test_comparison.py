"""The comparison with other queues: a quick run of Penstock and of the peers that are there."""

import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from benchmarks.comparison import document
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.environment import CannotInstall, Environment
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import Postgres
from benchmarks.comparison.table import ROWS
from penstock.bench.report import LiveLine
from tests.fixtures.server import PostgresServer

# It measures with several processes, one after the other: a slow machine has its time.
pytestmark = pytest.mark.timeout(400)

OTHERS = document.PEERS[1:]


@pytest.fixture
async def server(postgres: PostgresServer) -> AsyncIterator[Postgres]:
    async with Postgres.connect(postgres.admin_url, postgres.url) as server:
        before = await server.admin.fetch("SELECT datname FROM pg_database ORDER BY 1")
        yield server
        assert await server.admin.fetch("SELECT datname FROM pg_database ORDER BY 1") == before


@pytest.fixture
def penstock() -> Entrant:
    """Penstock in the environment of the tests."""
    return Entrant.of_peer("penstock", sys.executable)


def installed(key: str) -> Entrant:
    """`make bench-peers` makes the environments; the tests fetch nothing."""
    environment = Environment(key)
    if not environment.is_made():
        pytest.skip(f"{key} has no environment under .bench/")
    return Entrant.of_peer(key, environment.python)


async def quick(server: Postgres, *entrants: Entrant) -> dict[str, dict[str, object]]:
    found = await document.compare(server, Plan.quick(), LiveLine(), entrants, {})
    assert found["left_out"] == {}
    return found["peers"]  # type: ignore[no-any-return]


async def test_comparison_measures_penstock_when_another_peer_fails(
    server: Postgres, penstock: Entrant
) -> None:
    dead = replace(penstock, key="dead", start=("/bin/false",))
    found = await document.compare(server, Plan.quick(), LiveLine(), [dead, penstock], {})

    assert list(found["peers"]) == ["penstock"]
    assert found["left_out"].keys() == {"dead"}
    assert "ended too early" in found["left_out"]["dead"]
    for key, _, _ in ROWS:
        spread = found["peers"]["penstock"][key]
        assert isinstance(spread, dict)
        assert 0 < spread["least"] <= spread["median"] <= spread["most"], key


@pytest.mark.parametrize("key", OTHERS)
async def test_an_installed_peer_completes_all_its_jobs(server: Postgres, key: str) -> None:
    entrant = installed(key)
    peers = await quick(server, entrant)

    assert peers[key]["version"] == entrant.version
    assert len(peers[key]["held_tenths"]) == 10  # type: ignore[arg-type]


async def test_a_peer_whose_tables_tell_another_story_is_out(
    server: Postgres, penstock: Entrant
) -> None:
    facts = replace(penstock.facts, completed="SELECT 1::bigint")
    liar = replace(penstock, facts=facts)
    found = await document.compare(server, Plan.quick(), LiveLine(), [liar], {})

    assert found["peers"] == {}
    assert "1 are recorded as completed" in found["left_out"]["penstock"]


def test_a_peer_that_does_not_start_is_left_out_with_the_reason() -> None:
    with pytest.raises(CannotInstall, match="does not start: ModuleNotFoundError"):
        Entrant.of_peer("nobody", sys.executable)


@pytest.mark.parametrize("key", OTHERS)
def test_a_peers_environment_is_pinned_to_the_last_package(key: str) -> None:
    pins = Environment(key).requirements()

    assert pins
    assert all(len(pin.split("==")) == 2 for pin in pins)
    assert any(pin.startswith("uvloop==") for pin in pins)
