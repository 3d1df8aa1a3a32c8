"""What asyncpg must ask about a type before it can use it, a pool asks behind a pooler at once."""

import re
from importlib.resources import files
from pathlib import Path

import asyncpg

from penstock.sql import call, named_statements, statement

KNOWN = {"text[]"}  # to asyncpg itself


def called() -> set[str]:
    """The functions that Penstock calls by a statement that is derived from their signature."""
    package = Path(str(files("penstock")))
    texts = (path.read_text("utf-8") for path in package.rglob("*.py"))
    return {name for text in texts for name in re.findall(r"\.call\(\s*\"(\w+)\"", text)}


async def made_types(connection: asyncpg.Connection, text: str) -> set[str]:
    """The arrays and other made-up types that a statement takes and gives."""
    prepared = await connection.prepare(text)
    types = [*prepared.get_parameters(), *(column.type for column in prepared.get_attributes())]
    return {each.name for each in types if each.kind != "scalar"}


async def test_no_statement_uses_a_type_that_was_not_learned(
    connection: asyncpg.Connection,
) -> None:
    texts = {name: statement(name, "penstock") for name in named_statements("penstock.sql")}
    calls = {name: call(name, "penstock") for name in called()}
    assert "claim" in calls
    async with connection.transaction():
        learned = KNOWN | await made_types(connection, texts["list_array_types"])
        used = {name: await made_types(connection, text) for name, text in (texts | calls).items()}
    assert {name: types - learned for name, types in used.items() if types - learned} == {}
