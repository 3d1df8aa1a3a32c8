"""Tests do not depend on what may be cut anew: the inside of a module belongs to that module.

What tests must see or change inside a worker is in `tests/fixtures/worker.py`, and intervals are
arguments. A patch that names its target by a string hits a copy once the target has moved, and the
test passes for the wrong reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# These build parts directly, or stand between the tests and the parts.
FREE = ("unit", "fixtures", "fixtures_test")
# Python's own.
STANDARD = {"_exit", "_log_destroy_pending", "_testMethodName"}
# Where else something private is named, and why.
ALLOWED = {
    "knowledge/chunk/test_tokens.py: counter._words": "the size of a cache, which nothing tells",
    "knowledge/embed/test_remote.py: embedder._remote": "a key that is not sent leaves no trace",
    "knowledge/embed/test_remote.py: embedder._key_from": "a key that is not sent leaves no trace",
    "storage/test_bucket.py: storage._store": "damages a file behind the storage's back",
    "service/test_live.py: hub._watchers": "that nothing is asked any more leaves no trace",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS)
        if name.parts[0] not in FREE:
            yield str(name), ast.parse(path.read_text("utf-8"))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in STANDARD


def reaches(module: ast.Module) -> Iterator[str]:
    """What a module names that is private to another."""
    own = {
        node.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and is_self(node.value)
    } | {
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    for node in ast.walk(module):
        match node:
            case ast.Attribute(base, name) if is_private(name) and name not in own:
                if "._" not in (reach := ast.unparse(base)):
                    yield f"{reach}.{name}"
            case ast.ImportFrom(source, names):
                yield from (f"{source}.{each.name}" for each in names if is_private(each.name))
            case ast.Call(ast.Name("getattr" | "setattr"), [base, ast.Constant(str() as name), *_]):
                if is_private(name) and not is_self(base):
                    yield f"{ast.unparse(base)}.{name}"


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def strings_patched(module: ast.Module) -> Iterator[str]:
    """What a module patches by a dotted string."""
    for node in ast.walk(module):
        match node:
            case ast.Call(
                ast.Attribute(attr="setattr" | "delattr"), [ast.JoinedStr() as target, *_]
            ):
                yield ast.unparse(target)
            case ast.Call(
                ast.Attribute(attr="setattr" | "delattr"), [ast.Constant(str() as target), *_]
            ):
                yield target


def test_no_test_names_what_is_private_to_another_module() -> None:
    found = {f"{name}: {reach}" for name, module in modules() for reach in reaches(module)}
    assert sorted(found - ALLOWED.keys()) == []
    assert sorted(ALLOWED.keys() - found) == [], "no longer needed"


def test_no_test_patches_by_a_dotted_string() -> None:
    found = [
        f"{name}: {target}" for name, module in modules() for target in strings_patched(module)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "worker._parts",
        "app.worker()._parts.lease_keeper",
        "from penstock.worker.parts import _describe_worker",
        'getattr(worker, "_parts")',
    ],
)
def test_reaches_are_found(line: str) -> None:
    assert list(reaches(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "self._parts",
        "worker.__class__",
        "os._exit(1)",
        "class Own:\n    def make(self): self._one = 1\nown._one",
    ],
)
def test_what_is_ones_own_is_no_reach(line: str) -> None:
    assert not list(reaches(ast.parse(line)))


def test_patched_strings_are_found() -> None:
    lines = 'monkeypatch.setattr("penstock.x.Y", 1)\npatch.setattr(f"{module}.Y", 1)'
    assert len(list(strings_patched(ast.parse(lines)))) == 2
