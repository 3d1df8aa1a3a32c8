"""The SQL of knowledge: the statements of a subject in one file, one function a file; read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from penstock.sql import Roles, expand, listed, named, quote


@cache
def statement(name: str, schema: str) -> str:
    """The text of one statement in `statements/`, for a schema."""
    return named(__package__)[name].replace(':"schema"', quote(schema))


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Number and name of every migration, in order."""
    return listed(files(__package__))


@cache
def functions() -> tuple[str, ...]:
    """The names of all functions, and of the view that they share."""
    folders = (files(__package__) / "functions").iterdir()
    found = (entry.name for folder in folders for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".sql") for name in found))


def migration(name: str, direction: Literal["up", "down"], schema: str, vector: str) -> str:
    """The whole text of a migration; `vector` is the schema that pgvector was put into."""
    text = expand(files(__package__), f"{name}.{direction}.sql")
    return text.replace(':"schema"', quote(schema)).replace(':"vector"', quote(vector))


def script(name: str, schema: str, roles: Roles) -> str:
    """The text of a script in `rls/`, for a schema and the roles of the queue."""
    text = (files(__package__) / "rls" / f"{name}.sql").read_text("utf-8")
    text = text.replace(':"schema"', quote(schema)).replace(":'schema'", f"'{schema}'")
    for role in ("worker", "app"):
        named = getattr(roles, role)
        text = text.replace(f':"{role}"', quote(named)).replace(f":'{role}'", f"'{named}'")
    return text
