"""What the tests of the fixtures use beside them."""

import pytest

from tests.fixtures import leftovers


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left for good need not be waited for as long as what is ending."""
    monkeypatch.setattr(leftovers, "GRACE", 0.2)
