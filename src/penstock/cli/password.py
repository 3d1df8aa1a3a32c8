"""A new password: asked for twice at a terminal, else a line of standard input; never an option."""

from __future__ import annotations

import getpass
import sys

from penstock.cli.errors import CommandError


def new_password() -> str:
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
