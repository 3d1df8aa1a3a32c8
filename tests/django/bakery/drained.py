"""Tests as a project writes them, which run its jobs; test_runner.py has Django run them."""

import django
from django.test import TransactionTestCase

from penstock.integrations.django import app, enqueue
from penstock.testing import drain as adrain
from penstock.testing import for_tests
from penstock.testing.sync import advance, drain
from tests.django.bakery.jobs import bake
from tests.django.bakery.models import Bread


class Drained(TransactionTestCase):
    def setUp(self) -> None:
        for_tests(app)

    def test_jobs_are_run(self) -> None:
        enqueue(bake.options(delay=3600), "rye")
        assert drain(app).completed == 0
        advance(app, hours=1)
        assert drain(app).completed == 1
        assert Bread.objects.get().name == "rye"

    async def test_jobs_are_run_in_a_loop(self) -> None:
        await app.enqueue(bake, "rye")
        assert (await adrain(app)).completed == 1

    def test_tasks_of_django_are_run(self) -> None:
        if django.VERSION < (6, 0):
            self.skipTest("django.tasks is in Django from 6.0 on")
        from tests.django.bakery import tasks

        hot, baked = tasks.preheat.enqueue(), tasks.bake_async.enqueue("spelt")
        assert drain(app).completed == 2
        hot.refresh()
        assert hot.return_value == "hot"
        baked.refresh()
        assert baked.return_value == Bread.objects.get(name="spelt").pk

    def test_what_a_task_of_django_raises_is_raised(self) -> None:
        if django.VERSION < (6, 0):
            self.skipTest("django.tasks is in Django from 6.0 on")
        from tests.django.bakery import tasks

        tasks.burn.enqueue()
        with self.assertRaisesMessage(ValueError, "This bread is burnt"):
            drain(app)
