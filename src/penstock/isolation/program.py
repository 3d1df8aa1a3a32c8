"""How a module of ours is run as a program, by the same interpreter in the same way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = str(Path(__file__).parents[2])
RUN: Final = "import sys; sys.path.insert(0, {here!r}); from {module} import main; main()"


def program(module: str, *arguments: int) -> list[str]:
    """The command that calls a module's `main`, with -W, -X, -O and the like as they are here."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = RUN.format(here=HERE, module=module)
    return [sys.executable, *flags, "-c", code, *map(str, arguments)]
