"""A statement with its parameters, for any driver."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

_PLACE = re.compile(r"\$(\d+)")


class Statement(NamedTuple):
    """SQL with the places `$1, $2, …`, as Postgres itself has them, and what goes there."""

    sql: str
    params: tuple[Any, ...]

    @property
    def pyformat(self) -> tuple[str, dict[str, Any]]:
        """The same with named places, `%(p1)s`, as psycopg and Django take them."""
        named = {f"p{place}": _plain(value) for place, value in enumerate(self.params, 1)}
        return _with_names(self.sql), named


@cache
def _with_names(sql: str) -> str:
    return _PLACE.sub(r"%(p\1)s", sql.replace("%", "%%"))


def _plain(value: Any) -> Any:
    """The value as text where a driver may not know its type; the statements cast."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list) and value and isinstance(value[0], UUID):
        return [str(each) for each in value]
    return value
