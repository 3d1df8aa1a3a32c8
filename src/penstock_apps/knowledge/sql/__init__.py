"""Read the SQL of knowledge. Each subject has a file of statements, each function its own file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from penstock.sql import Roles, expand, listed, named_statements, newest_of, quote, read_functions
from penstock.sql.header import read_header


@cache
def statement(name: str, schema: str) -> str:
    """Return the text of one statement in `statements/`, for a schema."""
    return named_statements(__package__)[name].replace(':"schema"', quote(schema))


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Return the number and name of every migration, in order."""
    return listed(files(__package__))


@cache
def functions() -> dict[str, Traversable]:
    """Return the files of all functions, and of the view that they share, by name."""
    return read_functions(files(__package__))


@cache
def call(name: str, schema: str) -> str:
    """Return the statement that calls the newest version of a function, for a schema.

    Its `$1`, `$2`, … are the function's parameters in their order.
    """
    text = functions()[newest_of(functions())[name]].read_text("utf-8")
    return read_header(text).call(casts=False).replace(':"schema"', quote(schema))


def migration(name: str, direction: Literal["up", "down"], schema: str, vector: str) -> str:
    """Return the whole text of a migration; `vector` is the schema of pgvector."""
    text = expand(files(__package__), f"{name}.{direction}.sql")
    return text.replace(':"schema"', quote(schema)).replace(':"vector"', quote(vector))


def script(name: str, schema: str, roles: Roles) -> str:
    """Return the text of a script in `rls/`, for a schema and the roles of the queue."""
    text = (files(__package__) / "rls" / f"{name}.sql").read_text("utf-8")
    text = text.replace(':"schema"', quote(schema)).replace(":'schema'", f"'{schema}'")
    for role in ("worker", "app"):
        named = getattr(roles, role)
        text = text.replace(f':"{role}"', quote(named)).replace(f":'{role}'", f"'{named}'")
    return text
