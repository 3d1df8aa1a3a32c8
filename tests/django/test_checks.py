"""`manage.py check` tells what is wrong before the first job does."""

from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.db import connections
from django.test import override_settings

from tests.django.conftest import Use


def found() -> list[CheckMessage]:
    return run_checks(tags=["penstock"])


def test_a_sound_project_passes() -> None:
    assert found() == []


def test_a_database_that_is_no_postgres_is_an_error() -> None:
    with override_settings(PENSTOCK={"DATABASE": "lite"}):
        [error] = found()
    assert (error.id, error.is_serious()) == ("penstock.E001", True)
    assert "'lite' is sqlite" in error.msg


@pytest.mark.usefixtures("use")
def test_a_pooler_between_is_worth_knowing(use: Use) -> None:
    connections.settings["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
    [info] = found()
    assert (info.id, info.is_serious()) == ("penstock.I001", False)


@pytest.mark.parametrize(
    ("pool", "size"), [(True, 4), ({"max_size": 50}, 50), ({"min_size": 2}, 2), ({}, None)]
)
def test_a_pool_smaller_than_the_slots_of_a_worker_is_a_warning(
    use: Use, pool: Any, size: int | None
) -> None:
    connections.settings["default"]["OPTIONS"] = {"pool": pool}
    told = [warning.msg for warning in found()]
    assert len(told) == (0 if size is None else 1)
    assert all(f"has {size} connections" in message for message in told)
    with override_settings(PENSTOCK={"QUEUES": {"default": 1, "oven": 1}}):
        assert found() == []
