"""The Django app: registers checks and imports the project's tasks when a project starts."""

from __future__ import annotations

from django.apps import AppConfig


class PenstockConfig(AppConfig):
    """Registers Penstock's checks, and imports the project's tasks."""

    name = "penstock.integrations.django"
    label = "penstock"
    verbose_name = "Penstock"

    def ready(self) -> None:
        from penstock.integrations.django import checks
        from penstock.integrations.django.discovery import import_tasks
        from penstock.integrations.django.project import project_app

        checks.register()
        import_tasks(project_app().settings.modules)
