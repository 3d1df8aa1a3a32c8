"""One question to a server, over a connection of its own."""

from typing import Any

import asyncpg


async def value(url: str, sql: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()
