"""Children are forked, unless that would share what must not be shared."""

from types import ModuleType

import pytest

from penstock import Penstock
from tests.fixtures.worker import worker_of
from tests.isolation import connected, plain


@pytest.mark.parametrize(("module", "anew"), [(plain, False), (connected, True)])
async def test_connection_opened_by_an_import_belongs_to_one_child(
    app: Penstock, module: ModuleType, anew: bool
) -> None:
    app.include(module)
    async with worker_of(app):
        job = await app.enqueue(module.has_imported)
        assert await app.wait(job, timeout=30) is anew
