"""What is asked here is asked of PgBouncer itself; `make test-pgbouncer` brings one."""

import pytest

from tests.fixtures.pgbouncer import PROGRAM, PgBouncer, is_between
from tests.fixtures.server import PostgresServer
from tests.fixtures.worker import app

__all__ = ["app"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if not is_between() else ():
        if item.nodeid.startswith("tests/pgbouncer/"):
            item.add_marker(pytest.mark.skip(reason=f"{PROGRAM} names no PgBouncer"))


@pytest.fixture
def bouncer(postgres: PostgresServer) -> PgBouncer:
    """The PgBouncer that the tests run behind."""
    assert postgres.bouncer is not None
    return postgres.bouncer
