"""The code that docstrings show: paragraphs of Python, after the first sentence."""

import ast
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple


class Example(NamedTuple):
    """Code in a docstring, and where it stands."""

    place: str
    code: str


def examples(folder: Path) -> Iterator[Example]:
    """Those of all modules below a folder."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = getattr(node, "name", "")
                if code := code_in(ast.get_docstring(node) or ""):
                    yield Example(f"{path.relative_to(folder)} {name}".rstrip(), code)


def code_in(docstring: str) -> str:
    return "\n".join(filter(is_code, map(dedent, docstring.split("\n\n")[1:])))


def is_code(text: str) -> bool:
    try:
        compiled(text, "a docstring")
    except SyntaxError:
        return False
    return True


def compiled(code: str, place: str) -> Any:
    return compile(code, place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
