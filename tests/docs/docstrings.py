"""The code that docstrings show: paragraphs of Python, after the first sentence."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Example(NamedTuple):
    """Code in a docstring, and where it stands."""

    place: str
    code: str


def examples(folder: Path) -> Iterator[Example]:
    """Those of all modules below a folder."""
    for place, docstring in docstrings(folder):
        if code := code_in(docstring):
            yield Example(place, code)


@cache
def docstrings(folder: Path) -> tuple[tuple[str, str], ...]:
    """Those of all modules below a folder that go on after their first sentence, with places."""
    return tuple(
        (f"{path.relative_to(folder)} {getattr(node, 'name', '')}".rstrip(), docstring)
        for path in sorted(folder.rglob("*.py"))
        for node in documented(ast.parse(path.read_text()))
        if "\n\n" in (docstring := ast.get_docstring(node) or "")
    )


def documented(node: ast.AST) -> Iterator[Documented]:
    """A module, and the classes and functions in it; no expression has any."""
    if isinstance(node, Documented):
        yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from documented(child)


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
