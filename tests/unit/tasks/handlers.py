"""Handlers whose annotations are text, as with `from __future__ import annotations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.tasks import Context, task

if TYPE_CHECKING:
    from decimal import Decimal


@task
async def with_context(ctx: Context, number: int) -> int:
    return number


@task
async def without_context(number: int) -> int:
    return number


@task
def of_a_later_class(item: Later) -> int:
    return item.number


@task
def of_a_hidden_class(price: Decimal) -> None: ...


@dataclass
class Later:
    number: int


def unregistered(number: int) -> int:
    return number
