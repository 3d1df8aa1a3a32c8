"""A Django project in this process, on the database of each test."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import django
import pytest

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django.bakery.settings"
django.setup()

from django.db import connection, connections  # noqa: E402 (they read the settings)

from penstock.integrations.django import DjangoPenstock  # noqa: E402
from penstock.integrations.django import app as project_app  # noqa: E402
from tests.django.bakery.models import Bread  # noqa: E402
from tests.django.work import work_off  # noqa: E402
from tests.fixtures.database import Database  # noqa: E402
from tests.fixtures.django_database import database_settings  # noqa: E402

Use = Callable[[str], None]


@pytest.fixture
def use() -> Iterator[Use]:
    """Lead Django's default connections, of all threads, to an address."""
    # One dict, which the connections of all threads share.
    settings: dict[str, Any] = connections.settings["default"]
    before = dict(settings)
    yield lambda url: settings.update(database_settings(url))
    connections.close_all()
    settings.clear()
    settings.update(before)


@pytest.fixture
def app(database: Database, use: Use) -> Iterator[DjangoPenstock]:
    """The project's app, on this test's database, where the bakery has its table."""
    use(database.url)
    with connection.schema_editor() as editor:
        editor.create_model(Bread)
    yield project_app
    # What waits outside of a transaction has a thread of its own.
    project_app.sync.close()


@pytest.fixture
def work(app: DjangoPenstock) -> Callable[..., Any]:
    """Run what there is to do."""
    return work_off
