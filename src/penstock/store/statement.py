"""An SQL statement with its parameters, for any driver."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

_PLACEHOLDER = re.compile(r"\$(\d+)")


class Statement(NamedTuple):
    """An SQL statement with Postgres's own placeholders, `$1, $2, …`, and its parameters."""

    sql: str
    params: tuple[Any, ...]

    @property
    def pyformat(self) -> tuple[str, dict[str, Any]]:
        """The statement with named placeholders, `%(p1)s`, for psycopg and Django."""
        named = {f"p{number}": _plain(value) for number, value in enumerate(self.params, 1)}
        return _with_names(self.sql), named


@cache
def _with_names(sql: str) -> str:
    return _PLACEHOLDER.sub(r"%(p\1)s", sql.replace("%", "%%"))


def _plain(value: Any) -> Any:
    """Convert UUIDs to text, and return other values unchanged.

    The driver may not know the type UUID. The statements cast the text.
    """
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list) and value and isinstance(value[0], UUID):
        return [str(element) for element in value]
    return value
