"""The app of the project that DJANGO_SETTINGS_MODULE names, for a worker process to import.

DJANGO_SETTINGS_MODULE=shop.settings penstock work penstock.integrations.django.worker
"""

from __future__ import annotations

import logging

import django
from django.apps import apps
from django.conf import settings
from django.utils.log import configure_logging

from penstock.integrations.django.project import project_app


def _configure_logging() -> None:
    """The command has sent all log lines to stderr; what the project's LOGGING says comes first."""
    if settings.LOGGING:
        configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
        return
    # Django's own lines would be there twice: it sends them to stderr itself while DEBUG is on.
    own = logging.getLogger("django")
    for handler in tuple(own.handlers):
        if type(handler) is logging.StreamHandler:
            own.removeHandler(handler)


if not apps.ready:
    django.setup()
_configure_logging()

app = project_app()
