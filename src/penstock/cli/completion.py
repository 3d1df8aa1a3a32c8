"""`penstock completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.output import draw

VARIABLE = "_PENSTOCK_COMPLETE"


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


@examples(
    "penstock completion bash > ~/.local/share/bash-completion/completions/penstock",
    "penstock completion zsh > ~/.zfunc/_penstock",
    "penstock completion fish > ~/.config/fish/completions/penstock.fish",
)
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that is to complete.")],
) -> None:
    """Print the script for completion by a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    draw(get_completion_script(prog_name="penstock", complete_var=VARIABLE, shell=shell))


def answer_shells() -> None:
    """Let Typer answer the question that a shell puts into the environment."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
