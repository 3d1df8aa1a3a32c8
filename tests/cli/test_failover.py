"""What commands do with several hosts in the URL."""

import socket
from collections.abc import Iterator

import pytest

from tests.cli.command import Commands
from tests.fixtures.address import Address, with_address, with_hosts
from tests.fixtures.database import Database

HEALTHY, COULD_NOT = 0, 1
COMMANDS = (
    ["jobs", "list"],
    ["migrate"],
    ["work", "shop", "--drain"],
    ["bench", "--jobs", "1000"],
    ["serve", "shop", "--port", "0"],
)


@pytest.fixture
def closed(database: Database) -> Iterator[str]:
    """A URL to a port of this machine that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield with_address(database.url, Address(*taken.getsockname()))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_says_why_none_of_the_hosts_serves(
    bare: Commands, closed: str, command: list[str]
) -> None:
    url = with_hosts(closed, closed, target_session_attrs="read-write")
    run = bare.run(*command, "--database-url", url)
    assert run.returncode == COULD_NOT
    address = closed.rpartition("@")[2].partition("/")[0]
    assert run.stderr.count(f"{address}: ") == 2, run.stderr
    assert "unexpected error" not in run.stderr


@pytest.mark.parametrize("command", [["doctor", "--only", "schema"], ["queues", "list"]])
def test_a_command_uses_the_host_that_serves(
    bare: Commands, database: Database, closed: str, command: list[str]
) -> None:
    url = with_hosts(closed, database.url, target_session_attrs="read-write")
    run = bare.run(*command, "--database-url", url)
    assert run.returncode == HEALTHY, run.stderr
