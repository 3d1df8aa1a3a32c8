"""What a batch calls back with: requests that the database enqueues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from penstock.errors import ConfigError, TenantMismatch
from penstock.store.enqueue import stored_form
from penstock.tasks import Request, Task

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
        raise ConfigError(setting, what, "a task, or a request made with task.prepare(…)")
    options = request.options
    for option in _NOT_CALLED:
        if (value := getattr(options, option)) is not None:
            raise ConfigError(
                option, value, f"nothing for {setting}: the batch says when, and once"
            )
    if options.unique is not None and options.unique.on_conflict == "raise":
        raise ConfigError("on_conflict", "raise", f"skip, replace or supersede for {setting}")
    if tenant and options.tenant not in ("", tenant):
        raise TenantMismatch(options.tenant, tenant)
    own = {"tenant": options.tenant} if options.tenant else {}
    return stored_form(request) | own
