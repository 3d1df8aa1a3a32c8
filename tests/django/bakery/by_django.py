"""Tests as a project writes them, run by Django's own runner: test_runner.py starts it."""

from django.test import TestCase, TransactionTestCase

from penstock.integrations.django import app, enqueue
from tests.django.bakery.jobs import bake
from tests.django.bakery.models import Bread
from tests.django.work import work_off


class EachInATransaction(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        enqueue(bake, "for the class")

    def names(self) -> list[str]:
        return sorted(job.args["name"] for job in app.sync.list().jobs)

    def test_a_job_is_seen_by_the_test_that_enqueues_it(self) -> None:
        enqueue(bake, "rye")
        assert self.names() == ["for the class", "rye"]

    def test_a_job_is_gone_with_its_test(self) -> None:
        enqueue(bake, "spelt")
        assert self.names() == ["for the class", "spelt"]


class Committed(TransactionTestCase):
    def test_a_worker_runs_on_the_test_database(self) -> None:
        job = enqueue(bake, "rye")
        work_off()
        assert app.sync.get(job).result == Bread.objects.get(name="rye").pk
        app.sync.delete(job)
