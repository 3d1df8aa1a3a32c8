"""What a connection does when it is closed."""

import time

import asyncpg
import psycopg

from penstock.bounded_connection import BoundedConnection
from tests.fixtures.database import Database


async def test_a_connection_whose_server_has_gone_is_closed_without_a_word(
    database: Database,
) -> None:
    connection = await asyncpg.connect(
        database.direct_url, connection_class=BoundedConnection, timeout=60
    )
    pid = connection.get_server_pid()
    # The loop stands still meanwhile, so it has not heard of the end.
    with psycopg.connect(database.admin_url) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    time.sleep(0.05)  # noqa: ASYNC251 - for the socket to be closed
    await connection.close()
    assert connection.is_closed()
