"""Checks for `manage.py check`, which find mistakes before the first job fails because of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core import checks
from django.db import connections

from penstock.integrations.django.settings import ProjectSettings
from penstock.worker.limits.slots import DEFAULT_SLOTS

TAG = "penstock"
# psycopg's default size of a pool.
DEFAULT_POOL_SIZE = 4


def register() -> None:
    """Register Penstock's checks with Django."""
    checks.register(check_project, TAG)


def check_project(app_configs: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Check the database of the project's jobs, its pooler and the size of Django's pool."""
    settings = ProjectSettings.read()
    connection = connections[settings.database]
    if connection.vendor != "postgresql":
        return [_not_postgres(settings.database, connection)]
    return [*_pooler(connection), *_pool(settings, connection)]


def _not_postgres(alias: str, connection: Any) -> checks.CheckMessage:
    return checks.Error(
        f"Penstock's jobs live in Postgres, and the database {alias!r} is {connection.vendor}.",
        hint='Name the alias of a Postgres in PENSTOCK["DATABASE"].',
        id="penstock.E001",
    )


def _pooler(connection: Any) -> Iterator[checks.CheckMessage]:
    if connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        yield checks.Info(
            "DISABLE_SERVER_SIDE_CURSORS suggests a pooler in transaction mode, such as PgBouncer. "
            "Workers get no notifications through it, so they poll for jobs.",
            hint="To start jobs at once, set PENSTOCK_LISTEN_URL to the server's own address.",
            id="penstock.I001",
        )


def _pool(settings: ProjectSettings, connection: Any) -> Iterator[checks.CheckMessage]:
    pool = connection.settings_dict["OPTIONS"].get("pool")
    if not pool:
        return
    options = pool if isinstance(pool, dict) else {}
    size = options.get("max_size") or options.get("min_size", DEFAULT_POOL_SIZE)
    threads = sum(settings.queues.values()) if settings.queues else DEFAULT_SLOTS
    if threads > size:
        yield checks.Warning(
            f'OPTIONS["pool"] has {size} connections for a process, and a worker runs up to '
            f"{threads} jobs at once, each in a thread that may want one.",
            hint='Lower the slots in PENSTOCK["QUEUES"], or raise max_size.',
            id="penstock.W001",
        )
