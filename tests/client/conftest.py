"""What the tests of the client use beside the database."""

from tests.fixtures.kept import database, kept
from tests.fixtures.worker import app

__all__ = ["app", "database", "kept"]
