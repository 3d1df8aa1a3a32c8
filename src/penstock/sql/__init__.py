"""The queue's SQL: the statements of a subject in one file, one function a file; read once."""

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
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@cache
def statement(name: str, schema: str) -> str:
    """The text of one statement in `statements/`, for a schema."""
    return _bind(named(__package__)[name], schema)


@cache
def named(package: str) -> dict[str, str]:
    """The statements of a package by their names, from its folder `statements/`."""
    return read_named(files(package) / "statements")


def read_named(folder: Traversable) -> dict[str, str]:
    """The statements in the files of a folder by their names, each from its line `-- name: …`.

    A name that ends in `_columns` is that of a list: `:job_columns` stands for it in statements.
    """
    texts: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        for name, text in _sections(file):
            if name in texts:
                raise ValueError(f"Two statements in {folder} are named {name}. Rename one.")
            texts[name] = text
    lists = {name: _bare(text) for name, text in texts.items() if name.endswith("_columns")}
    used = {name for text in texts.values() for name in _COLUMNS.findall(text)}
    if used != lists.keys():
        names = ", ".join(sorted(used ^ lists.keys()))
        raise ValueError(f"{names} in {folder}: each list of columns needs a text and a statement.")
    return {
        name: _COLUMNS.sub(lambda found: lists[found[1]], text)
        for name, text in texts.items()
        if name not in lists
    }


@cache
def functions() -> dict[str, Traversable]:
    """The files of all functions by their names."""
    return read_functions(ROOT)


def read_functions(root: Traversable) -> dict[str, Traversable]:
    """The files of functions by their names, whichever folder of `functions/` they are in."""
    folders = (root / "functions").iterdir()
    files = (file for folder in folders for file in folder.iterdir())
    return {file.name.removesuffix(".sql"): file for file in files}


@cache
def newest() -> dict[str, str]:
    """The functions that this version of Penstock calls, each by its name without a version."""
    return newest_of(functions())


def newest_of(functions: Iterable[str]) -> dict[str, str]:
    """The newest version of each of some functions, by its name without a version."""
    versions: dict[str, int] = {}
    for function in functions:
        found = _VERSIONED.fullmatch(function)
        assert found is not None
        version = int(found["version"] or 0)
        versions[found["name"]] = max(version, versions.get(found["name"], 0))
    return {
        name: f"{name}_v{version}" if version else name
        for name, version in sorted(versions.items())
    }


@cache
def call(name: str, schema: str) -> str:
    """The statement that calls the newest version of a function, for a schema.

    Its `$1`, `$2`, … are the function's parameters in their order, without the time.
    """
    text = functions()[newest()[name]].read_text("utf-8")
    return _bind(read_header(text).call(), schema)


def function(name: str, schema: str) -> str:
    """The statement that makes one function in `functions/`, for a schema."""
    return _bind(functions()[name].read_text("utf-8"), schema)


def function_body(name: str, schema: str) -> str:
    """What Postgres keeps as the source of a function: all between the dollars."""
    return function(name, schema).split("$$")[1]


def indexes(schema: str) -> dict[str, str]:
    """The statements of the migrations that make an index, by its name."""
    made = {}
    for _, name in migrations():
        for line in migration(name, "up", schema).splitlines():
            if line.startswith("CREATE INDEX "):
                made[line.split()[2]] = line
    return made


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Number and name of every migration, in order."""
    return listed(ROOT)


def migration(name: str, direction: str, schema: str) -> str:
    """The whole text of a migration, its included files in place, as psql would read it."""
    return _bind(expand(ROOT, f"{name}.{direction}.sql"), schema)


def rls(name: str, schema: str) -> str:
    """The text of one script in `rls/`, for a schema and the roles that are named after it."""
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
    """The roles that row level security is made for."""

    worker: str
    app: str


def roles(schema: str) -> Roles:
    """Named after the schema: roles are the whole server's, and rights to one are not to all."""
    return Roles(f"{schema}_worker", f"{schema}_app")


def listed(root: Traversable) -> tuple[tuple[int, str], ...]:
    """Number and name of every migration in `migrations/` below a folder, in order."""
    names = sorted(
        entry.name.removesuffix(".up.sql")
        for entry in (root / "migrations").iterdir()
        if entry.name.endswith(".up.sql")
    )
    return tuple((int(name.split("_", 1)[0]), name) for name in names)


def expand(root: Traversable, name: str) -> str:
    """The text of a file in `migrations/` below a folder, with those it includes."""
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
        raise ValueError(f"{file} does not begin with a line `{_NAME}…`. Name its first statement.")
    return [
        (name.strip(), text.strip() + "\n")
        for name, _, text in (section.partition("\n") for section in sections)
    ]


def _bare(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def _bind(text: str, schema: str) -> str:
    # psql's own way to write a variable as an identifier, so that the files also run under psql.
    return text.replace(':"schema"', quote(schema))
