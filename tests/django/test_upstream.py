"""Django's own tests of django.tasks, from its source distribution, with Penstock's backend."""

import re
import sys
from pathlib import Path

import django
import pytest

from tests.django.manage import manage
from tests.fixtures.database import Database

pytest.importorskip("django.tasks", reason="django.tasks is in Django from 6.0 on")

DJANGOS_TESTS = Path(sys.prefix) / "django-tests"


@pytest.mark.skipif(
    not DJANGOS_TESTS.is_dir(),
    reason=f"Django {django.__version__} came without its tests: make install-django fetches them",
)
def test_djangos_own_tests_pass_with_penstocks_backend(database: Database) -> None:
    ended = manage(
        database.admin_url,
        *("test", "tasks", "--settings", "tests.django.upstream.settings"),
        *("--pythonpath", str(DJANGOS_TESTS), "--no-input"),
    )
    ran = re.search(r"^Ran (\d+) tests.*^OK ", ended.stderr, re.M | re.S)
    assert ran, ended.stderr
    # Newer Pythons do not count what is skipped.
    assert int(ran[1]) > 60
