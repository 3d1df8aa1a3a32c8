"""PENSTOCK, the setting: few keys, each checked, and the database's address is Django's."""

from typing import Any

import django
import pytest
from django.db import connections
from django.db.utils import ConnectionHandler
from django.test import override_settings

from penstock.errors import ConfigError
from penstock.integrations.django import DjangoPenstock
from penstock.integrations.django.connections import address_of
from penstock.integrations.django.settings import ProjectSettings
from penstock.testing import led_to
from tests.django.conftest import Use

DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}


def read(given: Any) -> ProjectSettings:
    with override_settings(PENSTOCK=given):
        return ProjectSettings.read()


def test_nothing_needs_to_be_set() -> None:
    found = ProjectSettings.read()
    assert (found.database, found.schema, found.queues) == ("default", "penstock", None)


def test_everything_can_be_set() -> None:
    found = read({"DATABASE": "lite", "SCHEMA": "q", "QUEUES": {"oven": 3}, "MODULES": ["work"]})
    assert found == ProjectSettings("lite", "q", {"oven": 3}, ("work",))


def test_queues_may_be_named_without_slots() -> None:
    assert read({"QUEUES": ["oven"]}).queues == {"oven": 100}


@pytest.mark.parametrize(
    ("given", "setting", "told"),
    [
        ("default", "PENSTOCK", "it must be a dict"),
        ({"QUEUE": []}, "PENSTOCK", "the keys DATABASE, SCHEMA, QUEUES, MODULES"),
        ({"DATABASE": "other"}, 'PENSTOCK["DATABASE"]', "one of DATABASES: 'default', 'lite'"),
        ({"SCHEMA": ""}, 'PENSTOCK["SCHEMA"]', "a name of 1 to 50 bytes"),
        ({"SCHEMA": "x" * 60}, 'PENSTOCK["SCHEMA"]', "a name of 1 to 50 bytes"),
        ({"QUEUES": {}}, 'PENSTOCK["QUEUES"]', "at least one queue"),
        ({"QUEUES": {"oven": 0}}, 'PENSTOCK["QUEUES"]', "slots of queue oven: 1 to 10000"),
        ({"QUEUES": {"the oven": 1}}, 'PENSTOCK["QUEUES"]', "queue: a name that matches"),
        ({"QUEUES": 5}, 'PENSTOCK["QUEUES"]', 'such as {"default": 20, "email": 5}'),
        ({"MODULES": "jobs"}, 'PENSTOCK["MODULES"]', 'such as ["jobs"]'),
        ({"MODULES": ["shop.jobs"]}, 'PENSTOCK["MODULES"]', "names of modules inside your apps"),
    ],
)
def test_a_wrong_setting_is_named(given: Any, setting: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(given)
    assert refused.value.setting == setting
    assert told in str(refused.value)


def test_tasks_modules_are_read_only_for_our_django_backend() -> None:
    with override_settings(TASKS={}):
        assert ProjectSettings.read().modules == ("jobs",)
    immediate = {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}
    with override_settings(TASKS={"default": immediate}):
        assert ProjectSettings.read().modules == ("jobs",)
    if django.VERSION >= (6, 0):
        assert ProjectSettings.read().modules == ("jobs", "tasks")


def test_a_backend_of_ones_own_may_be_a_kind_of_penstocks() -> None:
    pytest.importorskip("django.tasks", reason="django.tasks is in Django from 6.0 on")
    own = {"BACKEND": "tests.django.bakery.backends.Loud"}
    with override_settings(TASKS={"default": own}):
        assert ProjectSettings.read().modules == ("jobs", "tasks")


def test_another_databases_address_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r'PENSTOCK\["DATABASE"\] is .lite.; it must be the alias'
    ):
        address_of(connections["lite"])


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, "postgresql:///shop"),
        ({"HOST": "db.example.com"}, "postgresql://db.example.com/shop"),
        (
            {"HOST": "10.0.0.1", "PORT": 6432, "USER": "ada", "PASSWORD": "p@ss/word?"},
            "postgresql://ada:p%40ss%2Fword%3F@10.0.0.1:6432/shop",
        ),
        ({"HOST": "/run/postgresql"}, "postgresql:///shop?host=%2Frun%2Fpostgresql"),
        ({"HOST": "::1", "PORT": "5433"}, "postgresql:///shop?host=%3A%3A1&port=5433"),
        ({"HOST": "a,b", "PORT": "1,2"}, "postgresql:///shop?host=a%2Cb&port=1%2C2"),
        ({"NAME": "ice cream"}, "postgresql:///ice%20cream"),
        (
            {"OPTIONS": {"sslmode": "verify-full", "sslrootcert": "/ca.pem", "connect_timeout": 3}},
            "postgresql:///shop?sslmode=verify-full&sslrootcert=%2Fca.pem",
        ),
        (
            {"NAME": "", "OPTIONS": {"service": "shop", "passfile": ".pgpass"}},
            "postgresql:///?passfile=.pgpass&service=shop",
        ),
        ({"OPTIONS": {"assume_role": "owner"}}, "postgresql:///shop?role=owner"),
    ],
)
def test_the_address_is_that_of_djangos_connection(given: dict[str, Any], address: str) -> None:
    connection = ConnectionHandler({"default": {**DATABASE, **given}})["default"]
    assert address_of(connection) == address


def test_app_follows_djangos_connection_again_after_led_to(use: Use) -> None:
    app = DjangoPenstock(ProjectSettings.read())
    with led_to(app, "postgresql://elsewhere/shop_test"):
        assert app.database.url == app.url == "postgresql://elsewhere/shop_test"
    use("postgresql://ada@there/shop")
    assert app.database.url == app.url == "postgresql://ada@there/shop"
