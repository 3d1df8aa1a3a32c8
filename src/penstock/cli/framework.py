"""Declare commands: their options, their help with examples, and their errors and exit codes.

Options that many commands share are declared once, as the fields of a dataclass:

    @dataclass(frozen=True)
    class DatabaseOptions:
        schema: Annotated[str | None, typer.Option(help="…")] = None

    @expand_options
    def stats(db: DatabaseOptions) -> None: ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import IntEnum
from functools import cached_property, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any, Literal, NoReturn, TypeVar, get_type_hints

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from penstock.cli.errors import (
    Interrupted,
    NotFound,
    OutputLost,
    SettingNotFound,
    Unexpected,
    details_of,
    kind_of,
    reason_of,
)
from penstock.cli.output import Output, say
from penstock.errors import (
    BatchNotFound,
    BatchTimeout,
    ConfigError,
    IdempotencyMismatch,
    JobCancelled,
    JobConflict,
    JobFailed,
    JobNotFound,
    KeyNotFound,
    NameTaken,
    PenstockError,
    PersonNotFound,
    ScheduleNotFound,
    UniqueConflict,
    WaitTimeout,
    WorkflowNotFound,
    WorkflowTimeout,
)

F = TypeVar("F", bound=Callable[..., None])
_WANTS_JSON = "penstock.json"
# Only a terminal gets boxes and colours.
MARKUP: Literal["rich"] | None = "rich" if sys.stdout.isatty() else None
MAX_EXAMPLES_OF_GROUP = 3


class Exit(IntEnum):
    """The exit codes of all commands, each with its meaning."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "Done."
    ERROR = 1, "It could not be done; the message says why."
    USAGE = 2, "The command line, or a setting, makes no sense."
    NO = 3, "The answer is no: no such job, no server runs, a migration is due, something is wrong."
    CONFLICT = 4, "Some jobs were left as they are: their state, or a key, does not allow it."
    FAILED = 5, "What was waited for has failed or was cancelled."
    TIMEOUT = 6, "What was waited for has not ended in time."
    STALLED = 70, "A worker's event loop was blocked for five minutes."
    CUT_SHORT = 71, "A stop took longer than its limit, or a third signal came; the log says why."
    INTERRUPTED = 130, "Interrupted by Ctrl-C."


_EXIT_CODES: dict[type[PenstockError], Exit] = {
    ConfigError: Exit.USAGE,
    JobNotFound: Exit.NO,
    BatchNotFound: Exit.NO,
    WorkflowNotFound: Exit.NO,
    ScheduleNotFound: Exit.NO,
    KeyNotFound: Exit.NO,
    PersonNotFound: Exit.NO,
    NameTaken: Exit.CONFLICT,
    SettingNotFound: Exit.NO,
    NotFound: Exit.NO,
    JobConflict: Exit.CONFLICT,
    IdempotencyMismatch: Exit.CONFLICT,
    UniqueConflict: Exit.CONFLICT,
    JobFailed: Exit.FAILED,
    JobCancelled: Exit.FAILED,
    WaitTimeout: Exit.TIMEOUT,
    BatchTimeout: Exit.TIMEOUT,
    WorkflowTimeout: Exit.TIMEOUT,
    Interrupted: Exit.INTERRUPTED,
}


def exit_code_of(error: PenstockError) -> Exit:
    """Return the exit code for an error."""
    classes = type(reason_of(error)).__mro__
    return next((_EXIT_CODES[each] for each in classes if each in _EXIT_CODES), Exit.ERROR)


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Turn each parameter that is a dataclass of options into one option per field."""
    hints = get_type_hints(command, include_extras=True)
    parameters_of_command = signature(command).parameters.values()
    groups = {
        parameter.name: hints[parameter.name]
        for parameter in parameters_of_command
        if is_dataclass(hints[parameter.name])
    }

    @wraps(command)
    def run_command(**values: Any) -> None:
        option_groups = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **option_groups)

    parameters = [
        option
        for parameter in parameters_of_command
        for option in (
            _options_of(groups[parameter.name])
            if parameter.name in groups
            else [parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY)]
        )
    ]
    run_command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_command


def _options_of(group: type[Any]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=_default_of(field),
            annotation=hints[field.name],
        )


def _default_of(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default


def examples(*lines: str) -> Callable[[F], F]:
    """Decorate a command with examples. Its help shows them, and tests run them."""

    def decorate(command: F) -> F:
        command.examples = lines  # type: ignore[attr-defined]
        return command

    return decorate


def group(name: str, kind: type[TyperGroup] | None = None, **more: Any) -> typer.Typer:
    """Return a Typer app that holds several commands under one name."""
    return typer.Typer(
        **more,
        name=name,
        cls=kind or Commands,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=MARKUP,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


class Command(TyperCommand):
    """A command whose help ends with its examples."""

    # The types are Any because some versions of Typer bundle their own click.
    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        lines = getattr(self.callback, "examples", ())
        if lines:
            _write_section("Examples", lines, formatter, is_rich=self.rich_markup_mode is not None)


class LazyCommand:
    """A command whose module is imported only when more than its name and summary is needed."""

    short_help = rich_help_panel = None
    hidden = deprecated = False

    def __init__(self, name: str, location: str, summary: str) -> None:
        """Take the location of a function, or of the `typer.Typer` of a group, as `module:name`."""
        self.name, self.help = name, summary
        self.module, _, self._attribute = location.partition(":")

    def get_short_help_str(self, limit: int = 45) -> str:
        return TyperCommand(self.name, help=self.help).get_short_help_str(limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loaded, name)

    @cached_property
    def loaded(self) -> Any:
        """The command itself, imported on first use."""
        command = getattr(import_module(self.module), self._attribute)
        if isinstance(command, typer.Typer):
            return typer.main.get_group(command)
        single = group(self.name)
        single.command(self.name, cls=Command)(command)
        return typer.main.get_command(single)


class Commands(TyperGroup):
    """A group of commands that reports every error the same way.

    The help of a group ends with some of its examples, the help of the root with the exit codes.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_WANTS_JSON] = ctx.meta.get(_WANTS_JSON) or "--json" in args
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        if ctx.parent is None:
            lines = [f"{code.value:>3}  {code.meaning}" for code in Exit]
            title = "Exit codes"
        else:
            commands = (self.get_command(ctx, name) for name in self.list_commands(ctx))
            first_examples = [
                getattr(command.callback, "examples", ())[:1] for command in commands if command
            ]
            lines, title = (
                [line for lines_of_command in first_examples for line in lines_of_command][
                    :MAX_EXAMPLES_OF_GROUP
                ],
                "Examples",
            )
        if lines:
            _write_section(title, lines, formatter, is_rich=self.rich_markup_mode is not None)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if ctx.meta[_WANTS_JSON]:
                _print_error("interrupted", Exit.INTERRUPTED.meaning, Exit.INTERRUPTED)
            raise typer.Exit(Exit.INTERRUPTED) from None
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if hasattr(error, "format_message"):
                # It is a usage error: Typer reports it, with a hint to the command's help.
                _report_usage_error(error.format_message(), ctx.meta)
                raise
            if ctx.find_root().params.get("traceback"):
                raise
            known_error = error if isinstance(error, PenstockError) else Unexpected(error)
            _fail(known_error, as_json=ctx.meta[_WANTS_JSON])


def _fail(error: PenstockError, *, as_json: bool) -> NoReturn:
    code = exit_code_of(error)
    say(str(error))
    if as_json:
        _print_error(kind_of(error), str(error), code, **details_of(error))
    if isinstance(error, Interrupted) and error.at_once:
        _leave_at_once(code)
    raise typer.Exit(code) from None


def _leave_at_once(code: Exit) -> NoReturn:
    """End the process at once. A normal exit would wait for threads and tasks that still run."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _report_usage_error(message: str, meta: dict[str, Any]) -> None:
    if meta[_WANTS_JSON]:
        _print_error("usage", message, Exit.USAGE)
        meta[_WANTS_JSON] = False  # Reported. A parent group would report it again.


def _print_error(kind: str, message: str, code: Exit, **details: Any) -> None:
    error = {"kind": kind, "message": message, "exit_code": int(code), **details}
    with suppress(OutputLost):  # The message is on stderr as well.
        Output(as_json=True).show({"error": error}, lambda: message)


def _write_section(title: str, lines: Any, formatter: Any, *, is_rich: bool) -> None:
    if not is_rich:
        formatter.write(f"\n{title}:\n" + "".join(f"  {line}\n" for line in lines))
        return
    from rich.panel import Panel
    from rich.text import Text

    from penstock.cli.output import terminal

    text = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
    terminal().print(Panel(text, title=title, title_align="left", border_style="dim"))
