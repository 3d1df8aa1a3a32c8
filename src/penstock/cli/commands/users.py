"""`penstock people`: who may log in to the service."""

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
from penstock.cli.database import reached, user
from penstock.cli.errors import CommandError
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.listening import expect_service
from penstock.cli.options import Where
from penstock.cli.output import Output, terminal
from penstock.cli.tables import at
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
@spread
def list_people(where: Where, output: Output) -> None:
    """List the people and their roles."""
    asyncio.run(_show_people(where, output))


@app.command("add", cls=Command)
@examples("penstock people add grace --role operator < password.txt")
@spread
def add_person(name: Name, role: RoleOption, where: Where, output: Output) -> None:
    """Let somebody log in. The password is asked for, or read from standard input."""
    asyncio.run(_add_person(name, role.value, _new_password(), where, output))


@app.command("role", cls=Command)
@examples("penstock people role ada --role admin")
@spread
def change_role(name: Name, role: RoleOption, where: Where, output: Output) -> None:
    """Give somebody another role."""
    asyncio.run(_change_person(name, where, output, role=role.value))


@app.command("password", cls=Command)
@examples("penstock people password ada < password.txt")
@spread
def change_password(name: Name, where: Where, output: Output) -> None:
    """Give somebody another password, who is logged out everywhere.

    It is asked for, or read from standard input.
    """
    asyncio.run(_change_person(name, where, output, password=_new_password()))


@app.command("disable", cls=Command)
@examples("penstock people disable ada")
@spread
def disable_person(name: Name, where: Where, output: Output) -> None:
    """Let somebody in no more, who is logged out everywhere."""
    asyncio.run(_change_person(name, where, output, disabled=True))


@app.command("enable", cls=Command)
@examples("penstock people enable ada")
@spread
def enable_person(name: Name, where: Where, output: Output) -> None:
    """Let somebody in again who was disabled."""
    asyncio.run(_change_person(name, where, output, disabled=False))


def _new_password() -> str:
    """The password; other processes could read one on the command line."""
    if not sys.stdin.isatty():
        given = sys.stdin.readline().rstrip("\r\n")
        if not given:
            raise CommandError("Standard input has no password: write it there as a line.")
        return given
    given = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != given:
        raise CommandError("The two passwords differ. Nothing was changed.")
    return given


def _person_sentence(found: Person) -> str:
    """A person in a sentence."""
    if found.disabled_at is not None:
        return f"{found.name}, {found.role}, may not log in any more."
    return f"{found.name} may log in, as {found.role}."


def _people_table(found: Sequence[Person], width: int) -> RenderableType:
    if not found:
        return tables.nothing("There is nobody. Add one: penstock people add NAME --role operator")
    sheet = tables.Sheet(width, fills=False)
    sheet.column("name", most=max(16, width // 3))
    sheet.column("role")
    sheet.column("since (UTC)")
    sheet.column("")
    for each in found:
        mark = "" if each.disabled_at is None else "disabled"
        sheet.row(each.name, each.role, at(each.created_at), Text(mark, "yellow"))
    return sheet.table


async def _show_people(where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.people()
    output.show({"people": found}, lambda: _people_table(found, terminal().width))


async def _add_person(name: str, role: Role, password: str, where: Where, output: Output) -> None:
    kept = await _hashed(password)
    async with reached(where) as queue:
        made = await queue.app.add_person(name, role=role, password_hash=kept, by=user())
    output.show(made, lambda: _person_sentence(made))


async def _change_person(
    name: str, where: Where, output: Output, *, password: str | None = None, **changes: Any
) -> None:
    if password is not None:
        changes["password_hash"] = await _hashed(password)
    async with reached(where) as queue:
        found = await queue.app.set_person(name, **changes, by=user())
    output.show(found, lambda: _person_sentence(found))


async def _hashed(password: str) -> str:
    expect_service()
    from penstock.service.passwords import Passwords

    return await Passwords().hash(password)
