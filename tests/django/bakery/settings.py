"""A project with one app, whose database each test names."""

import os

import django

from tests.fixtures.django_database import database_settings

SECRET_KEY = "for tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["penstock.integrations.django", "tests.django.bakery"]

DATABASES = {
    "default": database_settings(os.environ.get("BAKERY_DATABASE", "dbname=not_named_yet")),
    "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}

DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("BAKERY_CONN_MAX_AGE", "0"))

if django.VERSION >= (6, 0):
    PENSTOCK_BACKEND = "penstock.integrations.django.tasks.PenstockBackend"
    TASKS = {
        "default": {"BACKEND": PENSTOCK_BACKEND, "QUEUES": ["default", "oven"]},
        "patient": {
            "BACKEND": PENSTOCK_BACKEND,
            "QUEUES": [],
            "OPTIONS": {"max_attempts": 3, "timeout": 30},
        },
        "immediate": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"},
    }
