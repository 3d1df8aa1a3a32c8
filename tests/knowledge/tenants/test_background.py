"""For which tenants uploads are answered before they are in."""

import pytest

from penstock_apps.knowledge.settings import PREFIX, Settings
from penstock_apps.knowledge.store.tenants import Tenant, TenantSettings


def tenant(documents: int = 10, plan: str | None = None, own: bool | None = None) -> Tenant:
    settings = TenantSettings(background=own, plan=plan)
    return Tenant(active=True, settings=settings, documents=documents, bytes=0, chunks=0, tokens=0)


@pytest.mark.parametrize(
    ("given", "which", "place", "has_it"),
    [
        ({}, tenant(), 0.99, True),
        ({"": "false"}, tenant(), 0.0, False),
        ({"": "false"}, tenant(own=True), 0.0, True),
        ({}, tenant(own=False), 0.0, False),
        ({"SHARE": "0.2"}, tenant(), 0.19, True),
        ({"SHARE": "0.2"}, tenant(), 0.2, False),
        ({"SHARE": "0"}, tenant(), 0.0, False),
        ({"PLANS": "pro, team"}, tenant(plan="team"), 0.5, True),
        ({"PLANS": "pro, team"}, tenant(plan="free"), 0.5, False),
        ({"PLANS": "pro"}, tenant(), 0.5, False),
        ({"PLANS": "pro"}, tenant(own=True), 0.5, True),
        ({"MOST_DOCUMENTS": "10"}, tenant(documents=10), 0.5, True),
        ({"MOST_DOCUMENTS": "10"}, tenant(documents=11), 0.5, False),
        ({"LEAST_DOCUMENTS": "10"}, tenant(documents=10), 0.5, True),
        ({"LEAST_DOCUMENTS": "10"}, tenant(documents=9), 0.5, False),
        ({"PLANS": "pro", "SHARE": "0.2"}, tenant(plan="pro"), 0.3, False),
    ],
)
def test_background_is_rolled_out_by_plan_size_and_share(
    given: dict[str, str], which: Tenant, place: float, has_it: bool
) -> None:
    environment = {
        f"{PREFIX}BACKGROUND{f'_{name}' if name else ''}": value for name, value in given.items()
    }
    assert which.has_background(Settings.of(environment), place) is has_it
