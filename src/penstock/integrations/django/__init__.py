"""Penstock in a Django project: `INSTALLED_APPS = [..., "penstock.integrations.django"]`.

    # shop/jobs.py
    from penstock.integrations.django import app

    @app.task
    def send_receipt(order_id: int) -> None:
        Order.objects.get(pk=order_id).send_receipt()

    # shop/views.py
    with transaction.atomic():
        order = Order.objects.create(item="kettle")
        enqueue(send_receipt, order.pk)          # stored with the order, or not at all

`app` is the only app of the project. It is made at its first use, because Django imports this
package before the settings can be read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.integrations.django.enqueueing import (
    aenqueue,
    aenqueue_many,
    enqueue,
    enqueue_many,
)
from penstock.integrations.django.project import DjangoPenstock, project_app

# Django checks task backends once this module is imported, and nothing else may import it.
with suppress(ModuleNotFoundError):
    import django.tasks  # noqa: F401 (in Django from 6.0 on)

if TYPE_CHECKING:
    app: DjangoPenstock

__all__ = ["DjangoPenstock", "aenqueue", "aenqueue_many", "app", "enqueue", "enqueue_many"]


def __getattr__(name: str) -> Any:
    if name == "app":
        return project_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
