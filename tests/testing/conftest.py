"""What the tests of penstock.testing use beside the database."""

from tests.fixtures.worker import app

__all__ = ["app"]
