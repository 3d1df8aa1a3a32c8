"""A project for Django's own tests of django.tasks, which name their backends themselves."""

import os

from tests.fixtures.django_database import database_settings

SECRET_KEY = "for tests"
USE_TZ = True
INSTALLED_APPS = ["penstock.integrations.django"]
DATABASES = {"default": database_settings(os.environ["BAKERY_DATABASE"])}
TEST_RUNNER = "tests.django.upstream.runner.Runner"
