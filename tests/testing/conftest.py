"""What the tests of penstock.testing use beside the database."""

import pytest

from penstock import Penstock
from penstock.testing import for_tests
from tests.fixtures import worker

app_of_the_program = worker.app


@pytest.fixture
def app(app_of_the_program: Penstock) -> Penstock:
    """An open app on a database that tests may do anything to."""
    for_tests(app_of_the_program)
    return app_of_the_program
