"""Tables, and the places on the page that they are put into."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

_BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Replace what stands between `<!-- results: name -->` and `<!-- end -->`.

    The text around it is written by hand and names no numbers.
    """
    return _BLOCK.sub(lambda found: found[1] + blocks[found[2]]() + found[3], text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]], *, numbers: bool = True) -> str:
    """The first column is text; the others are numbers, unless said otherwise."""
    names = list(head)
    side = "---:" if numbers else "---"
    lines = [names, ["---", *[side] * (len(names) - 1)], *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
