"""What docstrings show is Python, and calls what there is, with arguments that it takes.

Most examples need a worker, a job or a framework, so they are not run here; the pages of the
documentation are.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, NamedTuple

import pytest

import penstock
from penstock import Penstock
from penstock.tasks import Context
from tests.docs.docstrings import docstrings

HERE: Final = Path(inspect.getfile(penstock)).parent
# What these names stand for in examples.
APP: Final = Penstock("postgresql://nowhere/x")
OWNERS: Final[dict[str, Any]] = {"app": APP, "client": APP, "ctx": Context}


class Example(NamedTuple):
    """A paragraph of a docstring that is Python, and where it stands."""

    place: str
    tree: ast.Module


def examples() -> Iterator[Example]:
    for place, docstring in docstrings(HERE):
        for tree in filter(None, map(parsed, docstring.split("\n\n")[1:])):
            yield Example(place, tree)


def parsed(text: str) -> ast.Module | None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    try:
        tree = compile(dedent(text), "a docstring", "exec", flags)
    except SyntaxError:
        return None
    assert isinstance(tree, ast.Module)
    return tree


def calls_of(tree: ast.Module) -> Iterator[tuple[Any, str, ast.Call]]:
    """Calls of methods of what an example takes as given."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            value = call.func.value
            if isinstance(value, ast.Name) and value.id in OWNERS:
                yield OWNERS[value.id], call.func.attr, call


ALL: Final = [each for each in examples() if any(calls_of(each.tree))]


def test_examples_are_found() -> None:
    assert len(ALL) > 40


@pytest.mark.parametrize("example", ALL, ids=lambda each: each.place)
def test_example_calls_what_there_is(example: Example) -> None:
    for owner, name, call in calls_of(example.tree):
        method = getattr(owner, name, None)
        assert method is not None, f"{owner} has no {name}"
        if any(isinstance(each, ast.Starred) for each in call.args):
            continue
        named = {each.arg: None for each in call.keywords if each.arg is not None}
        if inspect.ismethod(method):
            inspect.signature(method).bind(*call.args, **named)
        elif inspect.isfunction(method):
            inspect.signature(method).bind(None, *call.args, **named)
