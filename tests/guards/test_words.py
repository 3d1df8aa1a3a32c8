"""No module, class, function or SQL has a name that a newcomer would have to learn first."""

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

SOURCES = Path(str(files("penstock"))).parent
WORDS = frozenset(
    {
        *("alone", "bringing", "brought", "completer", "crew", "crowd", "doom", "door", "endings"),
        *("errand", "far", "fleet", "gate", "given", "hand", "holdings", "inlet", "letters"),
        *("marks", "nursery", "rulebook", "said", "sharing", "shelves", "shop", "solitude"),
        *("told", "turnstile", "turns", "visits", "warden", "ways", "wish", "workshop"),
    }
)
# In these names such a word means what it means everywhere.
PLAIN = {
    *("_dead_letters", "_hand_to_large_queue", "_is_far_over_memory", "_publish_given_up"),
    *("dead_letters", "excess_marks", "given_settings", "is_given", "list_given_up"),
}
# Users see these names: they change with what they stand for. The list may only get shorter.
LEFT = {"BaseWish", "QuotasWish", "TenantWish", "TextWish", "Told", "UrlWish"}


def names() -> Iterator[tuple[str, str]]:
    """Each name, and where it is."""
    for path in SOURCES.glob("penstock*/**/*.py"):
        place = str(path.relative_to(SOURCES))
        yield path.stem, place
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, f"{place} {node.name}"
    for path in SOURCES.glob("penstock*/**/functions/**/*.sql"):
        yield path.stem, str(path.relative_to(SOURCES))


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def test_names_are_words_of_the_field() -> None:
    ours = {name: place for name, place in names() if words_of(name) & WORDS}
    unknown = [place for name, place in ours.items() if name not in PLAIN | LEFT]
    assert unknown == [], "Name them as Celery, Sidekiq, Oban or River would."
    assert (PLAIN | LEFT) - ours.keys() == set(), "These are gone: take them out of the lists."
