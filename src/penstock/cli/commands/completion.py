"""`penstock completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.framework import examples
from penstock.cli.output import draw
from penstock.cli.root import COMPLETION_VARIABLE


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

    draw(get_completion_script(prog_name="penstock", complete_var=COMPLETION_VARIABLE, shell=shell))
