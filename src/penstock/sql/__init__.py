"""Read the queue's SQL files.

The statements of one subject are together in a file. Each function has a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from penstock.sql.header import read_header
from penstock.sql.rights import WORKER_FUNCTIONS

ROOT: Traversable = files(__package__)

_INCLUDE = "\\ir "
_NAME = "-- name: "
_VERSIONED = re.compile(r"(?P<name>.+?)(?:_v(?P<version>\d+))?")
_COLUMNS = re.compile(r":(\w+_columns)\b")


def quote(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@cache
def statement(name: str, schema: str) -> str:
    """Return the text of a statement in `statements/`, with the schema's name filled in."""
    return _bind(named_statements(__package__)[name], schema)


@cache
def named_statements(package: str) -> dict[str, str]:
    """Return the statements of a package by name, from its folder `statements/`."""
    return read_named(files(package) / "statements")


def read_named(folder: Traversable) -> dict[str, str]:
    """Return the statements in a folder by name. Each statement begins with a line `-- name: …`.

    A section whose name ends in `_columns` is a list of columns. Statements include such a list by
    its name, for example as `:job_columns`.
    """
    texts: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        for name, text in _sections(file):
            if name in texts:
                raise ValueError(f"Two statements in {folder} are named {name}. Rename one.")
            texts[name] = text
    lists = {
        name: _without_comments(text) for name, text in texts.items() if name.endswith("_columns")
    }
    used = {name for text in texts.values() for name in _COLUMNS.findall(text)}
    if used != lists.keys():
        names = ", ".join(sorted(used ^ lists.keys()))
        raise ValueError(
            f"Check {names} in {folder}: each list of columns must be both defined and used by a "
            "statement."
        )
    return {
        name: _COLUMNS.sub(lambda match: lists[match[1]], text)
        for name, text in texts.items()
        if name not in lists
    }


@cache
def functions() -> dict[str, Traversable]:
    """Return the files of all functions by name."""
    return read_functions(ROOT)


def read_functions(root: Traversable) -> dict[str, Traversable]:
    """Return the files of functions by name, from all folders in `functions/`."""
    folders = (root / "functions").iterdir()
    files = (file for folder in folders for file in folder.iterdir())
    return {file.name.removesuffix(".sql"): file for file in files}


@cache
def newest() -> dict[str, str]:
    """Return the functions that this version of Penstock calls.

    The keys are the names without a version, and the values are the names with the newest version.
    """
    return newest_of(functions())


def newest_of(functions: Iterable[str]) -> dict[str, str]:
    """Return the newest version of each function.

    The keys are the names without a version, and the values are the names with the newest version.
    """
    versions: dict[str, int] = {}
    for function in functions:
        match = _VERSIONED.fullmatch(function)
        assert match is not None
        version = int(match["version"] or 0)
        versions[match["name"]] = max(version, versions.get(match["name"], 0))
    return {
        name: f"{name}_v{version}" if version else name
        for name, version in sorted(versions.items())
    }


@cache
def call(name: str, schema: str) -> str:
    """Return the statement that calls the newest version of a function in a schema.

    `$1`, `$2`, … are the function's parameters in order. The parameter `p_now` is left out.
    """
    text = functions()[newest()[name]].read_text("utf-8")
    return _bind(read_header(text).call(), schema)


def function(name: str, schema: str) -> str:
    """Return the statement that creates a function in `functions/`, for a schema."""
    return _bind(functions()[name].read_text("utf-8"), schema)


def function_body(name: str, schema: str) -> str:
    """Return what Postgres stores as the source of a function: the text between the dollars."""
    return function(name, schema).split("$$")[1]


def indexes(schema: str) -> dict[str, str]:
    """Return the statements of the migrations that create indexes, by the index's name."""
    statements = {}
    for _, name in migrations():
        for line in migration(name, "up", schema).splitlines():
            if line.startswith("CREATE INDEX "):
                statements[line.split()[2]] = line
    return statements


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Return number and name of each migration, in order."""
    return listed(ROOT)


def migration(name: str, direction: str, schema: str) -> str:
    """Return the text of a migration with its included files, as psql would read it."""
    return _bind(expand(ROOT, f"{name}.{direction}.sql"), schema)


def rls(name: str, schema: str) -> str:
    """Return the text of a script in `rls/`, for a schema and the roles named after it."""
    text = _bind((ROOT / "rls" / f"{name}.sql").read_text("utf-8"), schema)
    variables = {
        "schema": schema,
        "worker_functions": " ".join(WORKER_FUNCTIONS),
        **roles(schema)._asdict(),
    }
    for variable, value in variables.items():
        text = text.replace(f":'{variable}'", "'" + value.replace("'", "''") + "'")
    return text


class Roles(NamedTuple):
    """The roles to which row level security applies."""

    worker: str
    app: str


def roles(schema: str) -> Roles:
    """Return the roles of a schema.

    They are named after the schema, because roles belong to the whole server. A role of one queue
    therefore has no rights to another queue.
    """
    return Roles(f"{schema}_worker", f"{schema}_app")


def listed(root: Traversable) -> tuple[tuple[int, str], ...]:
    """Return number and name of each migration in `migrations/` below a folder, in order."""
    names = sorted(
        entry.name.removesuffix(".up.sql")
        for entry in (root / "migrations").iterdir()
        if entry.name.endswith(".up.sql")
    )
    return tuple((int(name.split("_", 1)[0]), name) for name in names)


def expand(root: Traversable, name: str) -> str:
    """Return the text of a migration's file below a folder, with the files that it includes."""
    lines = []
    for line in (root / "migrations" / name).read_text("utf-8").splitlines():
        if line.startswith(_INCLUDE):
            path = line.removeprefix(_INCLUDE).removeprefix("../").split("/")
            lines.append(root.joinpath(*path).read_text("utf-8"))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _sections(file: Traversable) -> list[tuple[str, str]]:
    head, *sections = re.split(f"^{_NAME}", file.read_text("utf-8"), flags=re.MULTILINE)
    if head or not sections:
        raise ValueError(
            f"{file} must begin with a line `{_NAME}…` that names its first statement."
        )
    return [
        (name.strip(), text.strip() + "\n")
        for name, _, text in (section.partition("\n") for section in sections)
    ]


def _without_comments(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def _bind(text: str, schema: str) -> str:
    # This is psql's syntax for a variable as an identifier, so that the files also run in psql.
    return text.replace(':"schema"', quote(schema))
