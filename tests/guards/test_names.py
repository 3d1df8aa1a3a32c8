"""A test is named after its behaviour, in few words."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAX_CHARACTERS = 60


def test_names_of_tests_are_short() -> None:
    long_names = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and len(node.name) > MAX_CHARACTERS
    ]
    assert long_names == [], "Say the behaviour with fewer words: subject, verb, object."
