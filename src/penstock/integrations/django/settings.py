"""Reads and checks the setting PENSTOCK of a Django project.

PENSTOCK = {"DATABASE": "default", "SCHEMA": "penstock", "QUEUES": {"default": 20, "email": 5}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from penstock.config import Database
from penstock.errors import ConfigError
from penstock.worker.limits.slots import parse_queues

TASK_BACKEND = "penstock.integrations.django.tasks.backend"


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The checked setting PENSTOCK.

    - `database`: the alias of the database that holds the jobs.
    - `schema`: the schema of Penstock's tables.
    - `queues`: the queues of its workers with their slots, or None.
    - `modules`: the names of modules in which the project's tasks are written.
    """

    database: str
    schema: str
    queues: dict[str, int] | None
    modules: tuple[str, ...]

    @classmethod
    def read(cls) -> ProjectSettings:
        """Read the project's settings. Raises ConfigError for one that is wrong."""
        values = getattr(settings, "PENSTOCK", {})
        if not isinstance(values, Mapping):
            raise ConfigError("PENSTOCK", values, "a dict")
        if unknown := values.keys() - CHECKS.keys():
            name = sorted(map(str, unknown))[0]
            raise ConfigError("PENSTOCK", name, f"a dict with the keys {', '.join(CHECKS)}")
        checked = {key: check(key, values.get(key)) for key, check in CHECKS.items()}
        return cls(**{key.lower(): value for key, value in checked.items()})


def task_backends() -> list[Mapping[str, Any]]:
    """Return the backends of the project's TASKS that use Penstock."""
    backends = getattr(settings, "TASKS", {}).values()
    return [backend for backend in backends if _is_ours(backend.get("BACKEND", ""))]


def _is_ours(path: str) -> bool:
    try:
        kind = import_string(path)
    except ImportError:
        # A Django without django.tasks ignores TASKS. One with django.tasks reports this itself.
        return False
    return any(base.__module__ == TASK_BACKEND for base in getattr(kind, "__mro__", ()))


def _database(key: str, value: Any) -> str:
    alias = "default" if value is None else value
    if alias not in settings.DATABASES:
        known = ", ".join(map(repr, settings.DATABASES))
        raise _wrong(key, value, f"the alias of one of DATABASES: {known}")
    return str(alias)


def _schema(key: str, value: Any) -> str:
    if value is None:
        return "penstock"
    try:
        return Database(schema=value).schema
    except ConfigError as error:
        raise _wrong(key, value, error.allowed) from None


def _queues(key: str, value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    try:
        return parse_queues(value)
    except (ConfigError, TypeError, ValueError) as error:
        reason = f" ({error.setting}: {error.allowed})" if isinstance(error, ConfigError) else ""
        allowed = f'queues with their slots, such as {{"default": 20, "email": 5}}{reason}'
        raise _wrong(key, value, allowed) from None


def _modules(key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        # By convention, tasks of django.tasks are in tasks.py. Without them, that file most likely
        # belongs to Celery.
        return ("jobs", "tasks") if task_backends() else ("jobs",)
    is_list = isinstance(value, list | tuple)
    if not is_list or not all(isinstance(name, str) and name.isidentifier() for name in value):
        raise _wrong(key, value, 'names of modules inside your apps, such as ["jobs"]')
    return tuple(value)


def _wrong(key: str, value: Any, allowed: str) -> ConfigError:
    return ConfigError(f'PENSTOCK["{key}"]', value, allowed)


CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "DATABASE": _database,
    "SCHEMA": _schema,
    "QUEUES": _queues,
    "MODULES": _modules,
}
