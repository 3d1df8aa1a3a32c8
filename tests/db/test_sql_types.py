"""What asyncpg must ask about a type before it can use it, a pool asks behind a pooler at once."""

import asyncpg

from penstock.sql import named, statement

KNOWN = {"text[]"}  # to asyncpg itself


async def made_types(connection: asyncpg.Connection, name: str) -> set[str]:
    """The arrays and other made-up types that a statement takes and gives."""
    prepared = await connection.prepare(statement(name, "penstock"))
    types = [*prepared.get_parameters(), *(column.type for column in prepared.get_attributes())]
    return {each.name for each in types if each.kind != "scalar"}


async def test_no_statement_uses_a_type_that_was_not_learned(
    connection: asyncpg.Connection,
) -> None:
    names = named("penstock.sql")
    async with connection.transaction():
        learned = KNOWN | await made_types(connection, "learn_types")
        used = {name: await made_types(connection, name) for name in names}
    assert {name: types - learned for name, types in used.items() if types - learned} == {}
