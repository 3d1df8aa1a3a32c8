"""The pytest plugin: databases for tests of code that uses Penstock.

    def test_sign_up(penstock_app):
        ...

This module lies outside the package, and imports the package only when a test asks for a fixture.
So test runs that do not use Penstock lose no time.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock import Penstock
    from penstock.testing.databases import PostgresServer

RUNNING_SERVER = "PENSTOCK_TEST_DATABASE_URL"
APP = "penstock_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(APP, "The app that the fixture penstock_app leads to a test database: shop:app")


@pytest.fixture(scope="session")
def penstock_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The Postgres server of the tests: an embedded one that stops when the tests end.

    To use a running server, set PENSTOCK_TEST_DATABASE_URL to its URL, with a role that may create
    databases.
    """
    with _server(tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session")
def penstock_template(penstock_server: PostgresServer) -> Iterator[str]:
    """The database of which each test gets a copy. Override it to add tables of your own:

    @pytest.fixture(scope="session")
    def penstock_template(penstock_template):
        with psycopg.connect(penstock_template) as connection:
            connection.execute("CREATE TABLE invoice (…)")
        return penstock_template
    """
    with penstock_server.template() as url:
        yield url


@pytest.fixture
def penstock_url(penstock_server: PostgresServer, penstock_template: str) -> Iterator[str]:
    """The URL of a database for this test alone, which has Penstock's tables without any rows."""
    with penstock_server.clone(penstock_template) as url:
        yield url


@pytest.fixture
def penstock_app(pytestconfig: pytest.Config, penstock_url: str) -> Iterator[Penstock]:
    """Your app on a database for this test alone.

    Name the app in pytest's setting `penstock_app`.
    """
    from penstock.testing.databases import led_to

    with led_to(_app(pytestconfig.getini(APP)), penstock_url) as app:
        yield app


def _server(folders: pytest.TempPathFactory) -> AbstractContextManager[PostgresServer]:
    from penstock.config import check_database_url
    from penstock.testing import databases

    if (url := os.environ.get(RUNNING_SERVER)) is not None:
        check_database_url(RUNNING_SERVER, url)
        return databases.running(url)
    return databases.embedded(_session_folder(folders))


def _session_folder(folders: pytest.TempPathFactory) -> Path:
    """Return the folder of the test run. With pytest-xdist, it contains each process's folder."""
    folder = folders.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def _app(target: str) -> Penstock:
    from penstock import Penstock

    if not target:
        raise pytest.UsageError(
            "The fixture penstock_app does not know your app. Name it in pytest's settings, such "
            'as penstock_app = "shop.jobs:app", or define a fixture with penstock.testing.led_to.'
        )
    app = pkgutil.resolve_name(target)
    if not isinstance(app, Penstock):
        raise pytest.UsageError(
            f"The setting penstock_app is {target!r}, which is of the type "
            f"{type(app).__name__} and no Penstock app. Name one as module:name, such as "
            "shop.jobs:app."
        )
    return app
