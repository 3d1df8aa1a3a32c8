"""Runs Django's own tests with Penstock's backend in the places of Django's."""

from typing import Any
from unittest import TestCase, TestSuite, skip

from django.tasks.backends import dummy, immediate
from django.test import SimpleTestCase
from django.test.runner import DiscoverRunner, iter_test_cases

from tests.django.upstream.backends import Stored, Worked
from tests.django.upstream.left_out import LEFT_OUT

# They are found by their paths, in settings, and by their names, in assertions.
dummy.DummyBackend = Stored
immediate.ImmediateBackend = Worked
# Most of the tests expect backends that need no database.
SimpleTestCase.databases = {"default"}


class Runner(DiscoverRunner):
    """Django's runner, which skips the tests that cannot apply."""

    def build_suite(self, *given: Any, **named: Any) -> TestSuite:
        suite = super().build_suite(*given, **named)
        unknown = set(LEFT_OUT)
        for test in iter_test_cases(suite):
            for place in [place for place in LEFT_OUT if _is_in(test, place)]:
                name = test._testMethodName
                setattr(test, name, skip(LEFT_OUT[place])(getattr(type(test), name)))
                unknown.discard(place)
        if unknown:
            raise LookupError(f"Django has no such tests: {', '.join(sorted(unknown))}")
        return suite


def _is_in(test: TestCase, place: str) -> bool:
    """Whether this is the test, or one of the module, that is named."""
    return f"{test.id()}.".startswith(f"tasks.{place}.")
