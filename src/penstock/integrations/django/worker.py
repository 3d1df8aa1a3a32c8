"""The app of the project that DJANGO_SETTINGS_MODULE names. Worker processes import this module.

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
    """Apply the project's LOGGING. Without it, the command's own logging to stderr stays."""
    if settings.LOGGING:
        configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
        return
    # While DEBUG is on, Django logs to stderr by itself, so its lines would appear twice.
    django_logger = logging.getLogger("django")
    for handler in tuple(django_logger.handlers):
        if type(handler) is logging.StreamHandler:
            django_logger.removeHandler(handler)


if not apps.ready:
    django.setup()
_configure_logging()

app = project_app()
