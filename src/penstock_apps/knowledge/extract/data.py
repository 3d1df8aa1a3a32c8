"""JSON: a line a value, with its name; a paragraph a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract.detect import SUFFIXES, decode
from penstock_apps.knowledge.extract.extract import too_much_text
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

DEEPEST = 100


def read(path: Path, name: str, limits: Limits) -> Extracted:
    text = decode(path.read_bytes())
    kind = SUFFIXES.get(Path(name).suffix.lower().removeprefix("."), "json")
    try:
        values = by_line(text) if kind == "jsonl" else parsed(text)
    except RecursionError:
        raise too_deep() from None
    return Extracted((Section("\n\n".join(records(values, limits))),), kind=kind)


def records(values: list[Any], limits: Limits) -> Iterator[str]:
    """A name may be repeated on each line, so what comes of a file is counted as it comes."""
    characters = 0
    for value in values:
        said = []
        for line in lines(value, ""):
            said.append(line)
            characters += len(line)
            if characters > limits.characters:
                raise too_much_text(limits)
        yield "\n".join(said)


def parsed(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        # Many files called .json have a value a line.
        return by_line(text)
    return value if isinstance(value, list) else [value]


def by_line(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def lines(value: Any, name: str, depth: int = 0) -> Iterator[str]:
    if depth > DEEPEST:
        raise too_deep()
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lines(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list):
        if all(not isinstance(inner, dict | list) for inner in value):
            yield from lines(", ".join(map(said, value)), name)
        else:
            for inner in value:
                yield from lines(inner, name, depth + 1)
    elif value not in (None, ""):
        yield f"{name}: {said(value)}" if name else said(value)


def said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def too_deep() -> Unreadable:
    return Unreadable(
        "broken",
        f"The file's values stand more than {DEEPEST} deep in each other. Save them flatter and "
        "send that.",
    )
