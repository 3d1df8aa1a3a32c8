"""A handler whose context is not there at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.tasks import Context


async def handler(ctx: Context, number: int) -> int:
    return number
