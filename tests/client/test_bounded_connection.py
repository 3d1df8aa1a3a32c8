"""What a connection does when it is closed."""

import time

import asyncpg
import psycopg

from penstock.bounded_connection import BoundedConnection
from tests.fixtures.database import Database


async def test_closing_a_connection_to_a_gone_server_raises_nothing(database: Database) -> None:
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
