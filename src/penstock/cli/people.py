"""`penstock people`: who may log in to the service."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

app = group("people", help="Let people log in to the service, and let them in no more.")


class RoleName(StrEnum):
    viewer = "viewer"
    operator = "operator"
    admin = "admin"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name that they log in with.")]
Role = Annotated[
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
    from penstock.cli.access import show_people

    asyncio.run(show_people(where, output))


@app.command("add", cls=Command)
@examples("penstock people add grace --role operator < password.txt")
@spread
def add_person(name: Name, role: Role, where: Where, output: Output) -> None:
    """Let somebody log in. The password is asked for, or read from standard input."""
    from penstock.cli.access import add_person
    from penstock.cli.password import new_password

    asyncio.run(add_person(name, role.value, new_password(), where, output))


@app.command("role", cls=Command)
@examples("penstock people role ada --role admin")
@spread
def change_role(name: Name, role: Role, where: Where, output: Output) -> None:
    """Give somebody another role."""
    from penstock.cli.access import change_person

    asyncio.run(change_person(name, where, output, role=role.value))


@app.command("password", cls=Command)
@examples("penstock people password ada < password.txt")
@spread
def change_password(name: Name, where: Where, output: Output) -> None:
    """Give somebody another password, who is logged out everywhere.

    It is asked for, or read from standard input.
    """
    from penstock.cli.access import change_person
    from penstock.cli.password import new_password

    asyncio.run(change_person(name, where, output, password=new_password()))


@app.command("disable", cls=Command)
@examples("penstock people disable ada")
@spread
def disable_person(name: Name, where: Where, output: Output) -> None:
    """Let somebody in no more, who is logged out everywhere."""
    from penstock.cli.access import change_person

    asyncio.run(change_person(name, where, output, disabled=True))


@app.command("enable", cls=Command)
@examples("penstock people enable ada")
@spread
def enable_person(name: Name, where: Where, output: Output) -> None:
    """Let somebody in again who was disabled."""
    from penstock.cli.access import change_person

    asyncio.run(change_person(name, where, output, disabled=False))
