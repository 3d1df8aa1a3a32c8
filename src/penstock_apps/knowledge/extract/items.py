"""Items of lists, indented by how many lists they stand in, within bounds."""

from __future__ import annotations

# To indent every item by all lists around it would take the square of their number.
DEEPEST = 8


def item(text: str, depth: int) -> str:
    """`depth` is 0 for an item of a list that stands in no other."""
    return f"{'  ' * min(depth, DEEPEST)}- {text}"
