"""What a command says: one JSON document, or something to read; the rest goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.errors import OutputLost

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Where nobody looks at columns, nothing needs to be cut off.
WIDE = 400


@dataclass(frozen=True)
class Output:
    """For people, or with --json for programs."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on standard output.")
    ] = False

    def show(self, document: Any, picture: Callable[[], RenderableType]) -> None:
        """Print the document, or the picture of it; a plain text is printed as it is.

        Whoever reads may leave before the end, such as `head`: the exit code stands.
        """
        try:
            if self.as_json:
                print_json(document)
            else:
                draw(picture())
        except BrokenPipeError:
            _give_stdout_up()


def draw(picture: RenderableType) -> None:
    """Print something to read; a plain text as it is."""
    with _writing():
        if isinstance(picture, str):
            typer.echo(picture)
            return
        console = terminal()
        if console.is_terminal:
            console.print(picture, crop=False)
            return
        with console.capture() as captured:
            console.print(picture, crop=False)
        # Columns are filled up with spaces, which only a terminal has room for.
        typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_json(document: Any) -> None:
    """One document on stdout: times in ISO 8601 and UTC; indented for a terminal."""
    import msgspec

    text = msgspec.json.encode(document, enc_hook=_plain)
    with _writing():
        shown = msgspec.json.format(text, indent=2) if sys.stdout.isatty() else text
        typer.echo(shown.decode())


def say(message: str) -> None:
    """Tell people something beside the answer."""
    typer.echo(message, err=True)


def terminal(*, stderr: bool = False) -> Console:
    """Where to draw: as wide as the terminal is, and without colours where there is none."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever read has read enough
        raise
    except OSError as error:
        _give_stdout_up()
        raise OutputLost(
            f"Standard output cannot be written to: {error.strerror}. What was to be done is done; "
            "the answer is lost."
        ) from error


def _give_stdout_up() -> None:
    """Let what is still to be written go nowhere: Python, too, would fail with it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value).__qualname__)
