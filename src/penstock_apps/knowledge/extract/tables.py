"""Write tables, records and list items as lines of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Lists that are nested deeper are not indented further, because the indentation would take the
# square of their number.
MAX_LIST_DEPTH = 8


def list_item(text: str, depth: int) -> str:
    """Return a line for an item of a list. `depth` is 0 if the list is not inside another list."""
    return f"{'  ' * min(depth, MAX_LIST_DEPTH)}- {text}"


Row = Sequence[str]


def table(rows: Iterable[Row]) -> str:
    """Return a Markdown table whose header is the first row.

    If there is only one column, return its values as paragraphs instead.
    """
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
    """Return a line for each row, in which each value follows the name of its column.

    A search result then makes sense without the header. Return a table if there is no header.
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

    This is assumed if other rows follow, none of the next 49 rows has more values than the first
    row, and the values of the first row are at least two, all different, and not numbers.
    """
    if len(rows) < 2:
        return False
    names = [name for name in rows[0] if name]
    widest = max(sum(map(bool, row)) for row in rows[1:50])
    is_wide_enough = 2 <= len(names) >= widest
    return is_wide_enough and len(set(names)) == len(names) and not any(map(is_number, names))


def is_number(text: str) -> bool:
    return text.replace(".", "").replace(",", "").replace("-", "").strip("% €$£").isdigit()
