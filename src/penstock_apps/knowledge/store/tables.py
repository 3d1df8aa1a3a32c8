"""The connection pool for the tables of knowledge, and the binary format of vectors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from struct import pack
from typing import Any, TypeAlias

import asyncpg

from penstock import Database, hosts
from penstock.bounded_connection import close_pool
from penstock.sql import roles
from penstock_apps.knowledge.embed.numeric import np
from penstock_apps.knowledge.sql import call, statement
from penstock_apps.knowledge.store.schema import schema_of, vector_schema

VECTOR_HEADER_BYTES = 4


def encode_vectors(vectors: Iterable[Any]) -> list[bytes]:
    """Encode vectors in pgvector's binary format: the dimensions, then big-endian half floats."""
    halves = [np.asarray(each, dtype=">f2") for each in vectors]
    return [pack(">HH", each.shape[0], 0) + each.tobytes() for each in halves]


def decode_vector(data: bytes) -> Any:
    """Decode a vector from pgvector's binary format."""
    return np.frombuffer(data, dtype=">f2", offset=VECTOR_HEADER_BYTES).astype(np.float32)


# The same limits as for the engine's own connections: to open, for one statement, to close.
CONNECT_S = 10.0
STATEMENT_S = 60.0
CLOSE_S = 10.0

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"


class TablePool:
    """A connection pool whose transactions see one tenant, if row level security is on.

    async with tables.transaction("acme") as connection:
        await connection.fetch(tables.statement("list_bases"), "acme", None, 100)
    """

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], database: Database, *, prepares: bool
    ) -> None:
        self._pool = pool
        self._direct = database.listen_url or database.url
        self._app_role = roles(database.schema).app
        self._schema = schema_of(database.schema)
        self._prepares = prepares

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        database: Database,
        size: int,
        *,
        statement_s: float = STATEMENT_S,
        close_s: float = CLOSE_S,
    ) -> AsyncIterator[TablePool]:
        """Open a pool of at most `size` connections, with timeouts for statements and closing."""
        prepares = database.prepared_statements
        if prepares is None:
            prepares = not await _is_pooled(database)
        pool = await asyncpg.create_pool(
            database.url,
            min_size=0,
            max_size=size,
            connect=hosts.connect,
            init=_learn_vectors,
            reset=_nothing_to_reset,
            server_settings={"application_name": "penstock knowledge"},
            statement_cache_size=100 if prepares else 0,
            command_timeout=max(statement_s, database.call_timeout),
            timeout=CONNECT_S,
        )
        try:
            yield cls(pool, database, prepares=prepares)
        finally:
            await close_pool(pool, close_s)

    def statement(self, name: str) -> str:
        """Return the text of a statement for these tables."""
        return statement(name, self._schema)

    def call(self, name: str) -> str:
        """Return the text of the statement that calls a function of these tables."""
        return call(name, self._schema)

    @asynccontextmanager
    async def transaction(
        self, tenant: str, *, confined: bool = False
    ) -> AsyncIterator[Connection]:
        """Open a transaction for a tenant; if `confined`, with the rights of the app role only."""
        role = self._app_role if confined else None
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.fetch(self.statement("be_tenant"), tenant, role)
            yield connection

    @asynccontextmanager
    async def own_session(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Open a connection outside the pool for long statements, past a pooler if possible."""
        connection = await hosts.connect(
            self._direct,
            timeout=CONNECT_S,
            statement_cache_size=0,
            # A pooler refuses parameters that it does not know, so this is the only one.
            server_settings={"application_name": "penstock knowledge indexes"},
        )
        try:
            yield connection
        finally:
            with suppress(TimeoutError):  # After it, the connection is closed all the same.
                await connection.close(timeout=5)

    @asynccontextmanager
    async def single_statement(self) -> AsyncIterator[Connection]:
        """Yield a connection for one statement of a worker. The statement must name its tenant."""
        async with self._pool.acquire() as connection:
            if self._prepares:
                yield connection
                return
            # Outside a transaction, a pooler may send a statement and its arguments to two servers.
            async with connection.transaction():
                yield connection

    @asynccontextmanager
    async def transaction_of_all(self) -> AsyncIterator[Connection]:
        """Open a transaction over all tenants, for maintenance. Its role must be allowed that."""
        async with self._pool.acquire() as connection, connection.transaction():
            yield connection


async def _is_pooled(database: Database) -> bool:
    """Return whether a pooler is in between.

    A pooler reports another process id at the start of a session than the server does.
    """
    connection = await hosts.connect(
        database.url, statement_cache_size=0, timeout=CONNECT_S, command_timeout=CONNECT_S
    )
    try:
        pid: int = await connection.fetchval("SELECT pg_backend_pid()")
        return pid != connection.get_server_pid()
    finally:
        await connection.close()


async def _learn_vectors(connection: Any) -> None:
    schema = await vector_schema(connection)
    # asyncpg changes a setting while it looks the type up, and changes it back: keep one server.
    async with connection.transaction():
        await connection.set_type_codec(
            "halfvec",
            schema=schema,
            encoder=bytes,
            decoder=decode_vector,
            format="binary",
        )


async def _nothing_to_reset(connection: Any) -> None:
    return None
