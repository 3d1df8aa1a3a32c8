"""Write tables, records and list items as lines of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Lists that are nested deeper are not indented further, because the indentation would take the
# square of their number.
MAX_LIST_DEPTH = 8


def list_item(text: str, depth: int) -> str:
    """Write an item of a list. `depth` is 0 if that list is in no other."""
    return f"{'  ' * min(depth, MAX_LIST_DEPTH)}- {text}"


Row = Sequence[str]


def table(rows: Iterable[Row]) -> str:
    """Write a table of Markdown. Its first row is the header."""
    filled = [[markdown_cell(value) for value in row] for row in rows]
    filled = [row for row in filled if any(row)]
    if not filled:
        return ""
    width = max(map(len, filled))
    if width == 1:
        return "\n\n".join(row[0] for row in filled)
    # Rows are not filled up to the width of the table: a few long rows would make all others long.
    lines = [f"| {' | '.join(row)} |" for row in filled]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def markdown_cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")


def records(rows: Iterable[Row]) -> str:
    """Write a line for each row, with each value beside its column's name.

    A search can then find a row without the header.
    """
    filled = [[" ".join(value.split()) for value in row] for row in rows]
    filled = [row for row in filled if any(row)]
    if not has_header(filled):
        return table(filled)
    names, *rest = filled
    return "\n\n".join(record(names, row) for row in rest)


def record(names: Row, row: Row) -> str:
    named = names if len(row) <= len(names) else [*names, *[""] * (len(row) - len(names))]
    pairs = zip(named, row, strict=False)
    return "; ".join(f"{name}: {value}" if name else value for name, value in pairs if value)


def has_header(rows: Sequence[Row]) -> bool:
    """Return whether the first row names the columns.

    It does if other rows follow, and it has a different word for each column.
    """
    if len(rows) < 2:
        return False
    names = [name for name in rows[0] if name]
    widest = max(sum(map(bool, row)) for row in rows[1:50])
    is_wide_enough = 2 <= len(names) >= widest
    return is_wide_enough and len(set(names)) == len(names) and not any(map(is_number, names))


def is_number(text: str) -> bool:
    return text.replace(".", "").replace(",", "").replace("-", "").strip("% €$£").isdigit()
