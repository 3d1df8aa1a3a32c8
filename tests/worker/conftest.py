"""What the tests of the worker use beside the database."""

from tests.fixtures.worker import app

__all__ = ["app"]
