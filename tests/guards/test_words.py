"""Words of our own that a newcomer would have to learn are no names of modules, classes and SQL."""

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

SOURCES = Path(str(files("penstock"))).parent
WORDS = frozenset(
    {
        *("alone", "bringing", "crew", "crowd", "door", "endings", "errand", "far", "fleet"),
        *("gate", "given", "hand", "holdings", "inlet", "letters", "marks", "nursery", "rulebook"),
        *("sharing", "shelves", "solitude", "turnstile", "turns", "visits", "warden", "ways"),
        *("workshop",),
    }
)


def names() -> Iterator[tuple[str, str]]:
    """Each name, and where it is."""
    for path in SOURCES.glob("penstock*/**/*.py"):
        place = str(path.relative_to(SOURCES))
        yield path.stem, place
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{place} {node.name}"
    for path in SOURCES.glob("penstock*/**/functions/**/*.sql"):
        yield path.stem, str(path.relative_to(SOURCES))


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def test_names_are_words_of_the_field() -> None:
    found = {place for name, place in names() if words_of(name) & WORDS}
    assert found == set(), "Name them as Celery, Sidekiq, Oban or River would."
