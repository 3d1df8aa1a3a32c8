"""Tables, records and list items as lines of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# To indent every item by all lists around it would take the square of their number.
MAX_LIST_DEPTH = 8


def list_item(text: str, depth: int) -> str:
    """`depth` is 0 for an item of a list that stands in no other."""
    return f"{'  ' * min(depth, MAX_LIST_DEPTH)}- {text}"


Row = Sequence[str]


def table(rows: Iterable[Row]) -> str:
    """A table of Markdown, whose first row is its head."""
    filled = [[cell(value) for value in row] for row in rows]
    filled = [row for row in filled if any(row)]
    if not filled:
        return ""
    width = max(map(len, filled))
    if width == 1:
        return "\n\n".join(row[0] for row in filled)
    # A row ends with its last value: filled up to the widest, few long rows would make many large.
    lines = [f"| {' | '.join(row)} |" for row in filled]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")


def records(rows: Iterable[Row]) -> str:
    """A line a row: each value beside the name of its column, so that a row is found by itself."""
    filled = [[" ".join(value.split()) for value in row] for row in rows]
    filled = [row for row in filled if any(row)]
    if not heads(filled):
        return table(filled)
    names, *rest = filled
    return "\n\n".join(record(names, row) for row in rest)


def record(names: Row, row: Row) -> str:
    named = names if len(row) <= len(names) else [*names, *[""] * (len(row) - len(names))]
    pairs = zip(named, row, strict=False)
    return "; ".join(f"{name}: {value}" if name else value for name, value in pairs if value)


def heads(rows: Sequence[Row]) -> bool:
    """Whether the first row names the columns: words, each its own, above other rows."""
    if len(rows) < 2:
        return False
    names = [name for name in rows[0] if name]
    widest = max(sum(map(bool, row)) for row in rows[1:50])
    enough = 2 <= len(names) >= widest
    return enough and len(set(names)) == len(names) and not any(map(number, names))


def number(text: str) -> bool:
    return text.replace(".", "").replace(",", "").replace("-", "").strip("% €$£").isdigit()
