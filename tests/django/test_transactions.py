"""Jobs are stored in the transaction that Django has open, from wherever it is asked."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import override_settings

from penstock import Unique, UniqueConflict
from penstock.integrations.django import (
    DjangoPenstock,
    aenqueue,
    aenqueue_many,
    enqueue,
    enqueue_many,
)
from tests.django.bakery.jobs import add, bake
from tests.django.bakery.models import Bread


class Burnt(Exception):
    pass


@contextmanager
def burnt() -> Iterator[None]:
    """A transaction that is rolled back, as an exception does it."""
    with suppress(Burnt), transaction.atomic():
        yield
        raise Burnt


def enqueue_one(name: str) -> None:
    enqueue(bake, name)


def enqueue_some(name: str) -> None:
    enqueue_many([bake.prepare(name)])


def enqueue_by_app(name: str) -> None:
    from penstock.integrations.django import app

    app.sync.enqueue(bake, name)


def enqueue_one_async(name: str) -> None:
    async_to_sync(aenqueue)(bake, name)


def enqueue_some_async(name: str) -> None:
    async_to_sync(aenqueue_many)([bake.prepare(name)])


WAYS = [enqueue_one, enqueue_some, enqueue_by_app, enqueue_one_async, enqueue_some_async]


def names(app: DjangoPenstock) -> list[Any]:
    return [job.args["name"] for job in reversed(app.sync.list().jobs)]


@pytest.mark.parametrize("way", WAYS)
def test_a_job_comes_with_the_transaction(app: DjangoPenstock, way: Any) -> None:
    with transaction.atomic():
        Bread.objects.create(name="rye")
        way("rye")
    assert names(app) == ["rye"]
    assert Bread.objects.count() == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_job_goes_with_the_transaction(app: DjangoPenstock, way: Any) -> None:
    with burnt():
        way("rye")
    assert names(app) == []


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_along(app: DjangoPenstock) -> None:
    with transaction.atomic():
        enqueue(bake, "rye")
        with burnt():
            enqueue(bake, "spelt")
    assert names(app) == ["rye"]


def test_a_unique_key_that_is_rolled_back_was_never_taken(app: DjangoPenstock) -> None:
    unique = bake.options(unique=Unique(key="bread:{name}", on_conflict="raise"))
    with burnt():
        enqueue(unique, "rye")
    with transaction.atomic():
        job = enqueue(unique, "rye")
        with pytest.raises(UniqueConflict, match=f"held by job {job.id}"), transaction.atomic():
            enqueue(unique, "rye")
        assert enqueue(bake.options(unique=Unique(key="bread:rye")), "rye").duplicate
    assert names(app) == ["rye"]


def test_without_a_transaction_a_job_is_stored_at_once(app: DjangoPenstock) -> None:
    enqueue(bake, "rye")
    assert names(app) == ["rye"]
    assert not connection.in_atomic_block


def test_a_job_can_be_cancelled_in_the_transaction_too(app: DjangoPenstock) -> None:
    job = enqueue(bake, "rye")
    with burnt():
        assert app.sync.cancel(job)
    assert app.sync.get(job).state == "ready"


def test_inside_a_transaction_nothing_is_waited_for(app: DjangoPenstock) -> None:
    with transaction.atomic():
        job = enqueue(add, 1, 2)
        with pytest.raises(RuntimeError, match="after the block"):
            app.sync.wait(job)


def test_behind_the_transaction_a_job_can_be_waited_for(app: DjangoPenstock, work: Any) -> None:
    with transaction.atomic():
        job = enqueue(add, 1, 2)
    work()
    assert app.sync.wait(job, timeout=30) == 3


def test_moments_have_a_time_zone_even_where_django_has_none(
    app: DjangoPenstock,
) -> None:
    job = enqueue(bake, "rye")
    aware = app.sync.get(job).created_at
    assert aware.utcoffset() is not None
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("SELECT now()")
            assert cursor.fetchone()[0].tzinfo is None
        assert app.sync.get(job).created_at == aware
