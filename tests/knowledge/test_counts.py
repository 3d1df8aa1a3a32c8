"""What has come of many documents together."""

import pytest

from penstock_apps.knowledge.store.counts import Counts


@pytest.mark.parametrize(
    ("numbers", "state"),
    [
        ({}, "completed"),
        ({"pending": 1, "failed": 1}, "processing"),
        ({"processing": 1, "completed": 1}, "processing"),
        ({"completed": 2}, "completed"),
        ({"completed": 1, "skipped": 1}, "completed"),
        ({"completed": 1, "failed": 1}, "partial"),
        ({"completed": 1, "cancelled": 1}, "partial"),
        ({"skipped": 2}, "skipped"),
        ({"failed": 1}, "failed"),
        ({"failed": 1, "skipped": 1, "cancelled": 1}, "failed"),
        ({"cancelled": 2}, "cancelled"),
        ({"cancelled": 1, "skipped": 1}, "cancelled"),
    ],
)
def test_state_of_many_documents(numbers: dict[str, int], state: str) -> None:
    assert Counts(total=sum(numbers.values()), **numbers).state == state
