"""Print the answer of a command on stdout, as text or as JSON, and notes on stderr."""

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

# Output that is not a terminal is read by programs, so its columns are not cut.
UNLIMITED_WIDTH = 400


@dataclass(frozen=True)
class Output:
    """The `--json` option: print for people, or one JSON document for programs."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on standard output.")
    ] = False

    def show(self, document: Any, picture: Callable[[], RenderableType]) -> None:
        """Print the document as JSON, or the picture for people.

        If the reader closes the pipe early, as `head` does, the exit code does not change.
        """
        try:
            if self.as_json:
                print_json(document)
            else:
                draw(picture())
        except BrokenPipeError:
            _discard_stdout()


def draw(picture: RenderableType) -> None:
    """Print a string or another picture for people on stdout. A string is printed unchanged."""
    with _report_lost_output():
        if isinstance(picture, str):
            typer.echo(picture)
            return
        console = terminal()
        if console.is_terminal:
            console.print(picture, crop=False)
            return
        with console.capture() as captured:
            console.print(picture, crop=False)
        # Rich pads columns with spaces; outside a terminal they would only be noise.
        typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_json(document: Any) -> None:
    """Print a document as JSON on stdout, indented if stdout is a terminal.

    Times are printed in ISO 8601 and UTC.
    """
    import msgspec

    text = msgspec.json.encode(document, enc_hook=_encode_path)
    with _report_lost_output():
        output = msgspec.json.format(text, indent=2) if sys.stdout.isatty() else text
        typer.echo(output.decode())


def say(message: str) -> None:
    """Print a note on stderr, so that stdout holds only the answer of the command."""
    typer.echo(message, err=True)


def terminal(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, without colours if there is no terminal."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNLIMITED_WIDTH
    return console


@contextmanager
def _report_lost_output() -> Iterator[None]:
    """Raise `OutputLost` if stdout cannot be written to, as on a full disk."""
    try:
        yield
    except BrokenPipeError:  # The reader, such as `head`, has seen enough.
        raise
    except OSError as error:
        _discard_stdout()
        raise OutputLost(
            f"Standard output cannot be written to: {error.strerror}. The command has done its "
            "work, but its output is lost."
        ) from error


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that the flush at exit does not fail again."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _encode_path(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value).__qualname__)
