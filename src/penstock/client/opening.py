"""What a batch is opened with, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict

from penstock.client import filters
from penstock.client.callbacks import Callback, callbacks_of
from penstock.errors import BadArgument
from penstock.tasks.options import CHECKS

if TYPE_CHECKING:
    from penstock.client.as_tenant import AsTenant

LONGEST_NAME: Final = 500


class BatchOptions(TypedDict, total=False):
    """What may be said of a new batch: its callbacks, whose it is, and anything else as `meta`."""

    on_success: Callback | None
    on_end: Callback | None
    on_failure: Callback | None
    tenant: str
    meta: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Opening:
    """A new batch as it is stored."""

    tenant: str
    name: str | None
    callbacks: Mapping[str, Any]
    meta: str | None

    @classmethod
    def of(cls, name: str | None, options: BatchOptions, tenant: AsTenant | None) -> Opening:
        if unknown := options.keys() - BatchOptions.__optional_keys__:
            raise TypeError(f"There is no option {', '.join(sorted(unknown))} for a batch.")
        owner = options.get("tenant", "")
        if tenant is not None:
            owner = tenant.named(owner)
        owner = CHECKS["tenant"]("tenant", owner)
        given: dict[str, Callback | None] = {
            "success": options.get("on_success"),
            "end": options.get("on_end"),
            "failure": options.get("on_failure"),
        }
        meta = CHECKS["meta"]("meta", options.get("meta"))
        return cls(owner, _name(name), callbacks_of(owner, given), meta)


def _name(name: Any) -> str | None:
    filters.texts(name=name)
    if name is not None and not 1 <= len(name) <= LONGEST_NAME:
        raise BadArgument("name", name, f"1 to {LONGEST_NAME} characters")
    return None if name is None else str(name)
