"""What a batch calls back with: requests that the database enqueues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from penstock.errors import Misuse, TenantMismatch
from penstock.store.enqueue import stored_form
from penstock.tasks import Request, Task
from penstock.tasks.registry import not_a_task

Callback: TypeAlias = Request[Any] | Task[..., Any]

# The batch says when, and that it is once.
_NOT_CALLED: Final = ("run_at", "deadline", "idempotency_key")


def callbacks_of(tenant: str, given: Mapping[str, Callback | None]) -> dict[str, dict[str, Any]]:
    """The stored forms by their moments; of a tenant's batch all are that tenant's."""
    return {
        moment: _form(f"on_{moment}", what, tenant)
        for moment, what in given.items()
        if what is not None
    }


def _form(setting: str, what: Any, tenant: str) -> dict[str, Any]:
    request = what.prepare() if isinstance(what, Task) else what
    if not isinstance(request, Request):
        raise Misuse(not_a_task(setting, what), setting)
    options = request.options
    for option in _NOT_CALLED:
        if (value := getattr(options, option)) is not None:
            raise Misuse(
                f"The request of {setting} has the option {option}, {value!r}: leave it out, since "
                "the batch says when it runs, and once.",
                option,
            )
    if options.unique is not None and options.unique.on_conflict == "raise":
        raise Misuse(
            f"The request of {setting} raises where its unique key is held, and nobody would hear "
            "of it: choose skip, replace or supersede.",
            "on_conflict",
        )
    if tenant and options.tenant not in ("", tenant):
        raise TenantMismatch(options.tenant, tenant)
    own = {"tenant": options.tenant} if options.tenant else {}
    return stored_form(request) | own
