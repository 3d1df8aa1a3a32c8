"""How every command is declared, explains itself and ends: options, examples, exit codes."""

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


class Exit(IntEnum):
    """The exit codes of every command, with what they mean."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

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


_CODES: dict[type[PenstockError], Exit] = {
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


def exit_of(error: PenstockError) -> Exit:
    """The exit code that an error means."""
    kinds = type(reason_of(error)).__mro__
    return next((_CODES[kind] for kind in kinds if kind in _CODES), Exit.ERROR)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its groups, as Typer reads them."""
    hints = get_type_hints(command, include_extras=True)
    taken = signature(command).parameters.values()
    groups = {each.name: hints[each.name] for each in taken if is_dataclass(hints[each.name])}

    @wraps(command)
    def spread_out(**given: Any) -> None:
        gathered = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **gathered)

    parameters = [
        option
        for each in taken
        for option in (
            _options(groups[each.name])
            if each.name in groups
            else [each.replace(annotation=hints[each.name], kind=Parameter.KEYWORD_ONLY)]
        )
    ]
    spread_out.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    spread_out.__annotations__ = {each.name: each.annotation for each in parameters}
    return spread_out


def _options(group: type[Any]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default


F = TypeVar("F", bound=Callable[..., None])

_WANTS_JSON = "penstock.json"
# Boxes and colours are for people at a terminal.
MARKUP: Literal["rich"] | None = "rich" if sys.stdout.isatty() else None


def examples(*lines: str) -> Callable[[F], F]:
    """Decorate a command with examples, which its help ends with, and which tests run."""

    def decorate(command: F) -> F:
        command.examples = lines  # type: ignore[attr-defined]
        return command

    return decorate


def group(name: str, kind: type[TyperGroup] | None = None, **more: Any) -> typer.Typer:
    """Some commands under one name."""
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


EXAMPLES_SHOWN = 3


class Command(TyperCommand):
    """One command; its help ends with its examples."""

    # Any: some versions of Typer carry a click of their own.
    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        lines = getattr(self.callback, "examples", ())
        if lines:
            _write_section("Examples", lines, formatter, is_rich=self.rich_markup_mode is not None)


class LazyCommand:
    """A command that is imported when anything but its name and its line of help is asked for."""

    short_help = rich_help_panel = None
    hidden = deprecated = False

    def __init__(self, name: str, place: str, line: str) -> None:
        """`place` is `module:name`, of the function or of the `typer.Typer` of a group."""
        self.name, self.help = name, line
        self.module, _, self._attribute = place.partition(":")

    def get_short_help_str(self, limit: int = 45) -> str:
        return TyperCommand(self.name, help=self.help).get_short_help_str(limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loaded, name)

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        command = getattr(import_module(self.module), self._attribute)
        if isinstance(command, typer.Typer):
            return typer.main.get_group(command)
        alone = group(self.name)
        alone.command(self.name, cls=Command)(command)
        return typer.main.get_command(alone)


class Commands(TyperGroup):
    """Some commands, with one way to end; the help of a group ends with some of their examples."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_WANTS_JSON] = ctx.meta.get(_WANTS_JSON) or "--json" in args
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        if ctx.parent is None:
            lines = [f"{code.value:>3}  {code.meaning}" for code in Exit]
            title = "Exit codes"
        else:
            below = (self.get_command(ctx, name) for name in self.list_commands(ctx))
            firsts = [getattr(each.callback, "examples", ())[:1] for each in below if each]
            lines, title = [line for some in firsts for line in some][:EXAMPLES_SHOWN], "Examples"
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
                # Usage: Typer says it with the command's help beside.
                _tell_usage(error.format_message(), ctx.meta)
                raise
            if ctx.find_root().params.get("traceback"):
                raise
            told = error if isinstance(error, PenstockError) else Unexpected(error)
            _fail(told, as_json=ctx.meta[_WANTS_JSON])


def _fail(error: PenstockError, *, as_json: bool) -> NoReturn:
    code = exit_of(error)
    say(str(error))
    if as_json:
        _print_error(kind_of(error), str(error), code, **details_of(error))
    if isinstance(error, Interrupted) and error.at_once:
        _leave_at_once(code)
    raise typer.Exit(code) from None


def _leave_at_once(code: Exit) -> NoReturn:
    """Whatever still runs: Python would wait for threads, and tell of tasks that never ended."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _tell_usage(message: str, meta: dict[str, Any]) -> None:
    if meta[_WANTS_JSON]:
        _print_error("usage", message, Exit.USAGE)
        meta[_WANTS_JSON] = False  # told; a group within a group would tell it again


def _print_error(kind: str, message: str, code: Exit, **details: Any) -> None:
    error = {"kind": kind, "message": message, "exit_code": int(code), **details}
    with suppress(OutputLost):  # people are told on stderr
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
