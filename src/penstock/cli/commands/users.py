"""`penstock people`: users who may log in to the service."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import current_user, open_queue
from penstock.cli.errors import CommandError
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.listening import require_service
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output, terminal
from penstock.cli.tables import format_time
from penstock.groups.keys import Role
from penstock.groups.users import Person

app = group("people", help="Let people log in to the service, and let them in no more.")


class RoleName(StrEnum):
    viewer = "viewer"
    operator = "operator"
    admin = "admin"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name that they log in with.")]
RoleOption = Annotated[
    RoleName,
    typer.Option(
        help="viewer: look; operator: enqueue, cancel, pause, change settings too; admin: all."
    ),
]


@app.command("list", cls=Command)
@examples("penstock people list", "penstock people list --json")
@expand_options
def list_people(db: DatabaseOptions, output: Output) -> None:
    """List the people and their roles."""
    asyncio.run(_show_people(db, output))


@app.command("add", cls=Command)
@examples("penstock people add grace --role operator < password.txt")
@expand_options
def add_person(name: Name, role: RoleOption, db: DatabaseOptions, output: Output) -> None:
    """Let somebody log in. The password is asked for, or read from standard input."""
    asyncio.run(_add_person(name, role.value, _new_password(), db, output))


@app.command("role", cls=Command)
@examples("penstock people role ada --role admin")
@expand_options
def change_role(name: Name, role: RoleOption, db: DatabaseOptions, output: Output) -> None:
    """Give somebody another role."""
    asyncio.run(_change_person(name, db, output, role=role.value))


@app.command("password", cls=Command)
@examples("penstock people password ada < password.txt")
@expand_options
def change_password(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Give somebody another password, who is logged out everywhere.

    It is asked for, or read from standard input.
    """
    asyncio.run(_change_person(name, db, output, password=_new_password()))


@app.command("disable", cls=Command)
@examples("penstock people disable ada")
@expand_options
def disable_person(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Let somebody in no more, who is logged out everywhere."""
    asyncio.run(_change_person(name, db, output, disabled=True))


@app.command("enable", cls=Command)
@examples("penstock people enable ada")
@expand_options
def enable_person(name: Name, db: DatabaseOptions, output: Output) -> None:
    """Let somebody in again who was disabled."""
    asyncio.run(_change_person(name, db, output, disabled=False))


def _new_password() -> str:
    """Read a new password: twice at a terminal, else one line of standard input.

    There is no option for the password, because other processes can read the command line.
    """
    if not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise CommandError(
                "Standard input contains no password. Write the password to it as one line."
            )
        return password
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise CommandError("The two passwords differ. Nothing was changed.")
    return password


def _person_sentence(user: Person) -> str:
    """Describe a user in one sentence."""
    if user.disabled_at is not None:
        return f"{user.name}, {user.role}, may not log in any more."
    return f"{user.name} may log in, as {user.role}."


def _people_table(users: Sequence[Person], width: int) -> RenderableType:
    if not users:
        return tables.empty_text(
            "There is nobody. Add one: penstock people add NAME --role operator"
        )
    builder = tables.TableBuilder(width, fills=False)
    builder.column("name", max_width=max(16, width // 3))
    builder.column("role")
    builder.column("since (UTC)")
    builder.column("")
    for user in users:
        status = "" if user.disabled_at is None else "disabled"
        builder.row(user.name, user.role, format_time(user.created_at), Text(status, "yellow"))
    return builder.table


async def _show_people(db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        users = await queue.app.people()
    output.show({"people": users}, lambda: _people_table(users, terminal().width))


async def _add_person(
    name: str, role: Role, password: str, db: DatabaseOptions, output: Output
) -> None:
    password_hash = await _hash_password(password)
    async with open_queue(db) as queue:
        user = await queue.app.add_person(
            name, role=role, password_hash=password_hash, by=current_user()
        )
    output.show(user, lambda: _person_sentence(user))


async def _change_person(
    name: str,
    db: DatabaseOptions,
    output: Output,
    *,
    password: str | None = None,
    **changes: Any,
) -> None:
    if password is not None:
        changes["password_hash"] = await _hash_password(password)
    async with open_queue(db) as queue:
        user = await queue.app.set_person(name, **changes, by=current_user())
    output.show(user, lambda: _person_sentence(user))


async def _hash_password(password: str) -> str:
    require_service()
    from penstock.service.passwords import Passwords

    return await Passwords().hash(password)
