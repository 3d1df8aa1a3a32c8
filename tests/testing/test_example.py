"""The example project's own tests pass."""

import os
import subprocess
from pathlib import Path

import pytest_penstock
from tests.fixtures.pythons import pythons
from tests.fixtures.server import PostgresServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "testing"


def test_the_example_s_tests_pass(postgres: PostgresServer) -> None:
    # Named one by one, so that it is this checkout's plugin whatever is installed.
    plugins = ["-ppytest_penstock", "-ppytest_asyncio.plugin", "-pno:cacheprovider"]
    ended = subprocess.run(
        [*pythons().command, "-m", "pytest", "-q", *plugins],
        cwd=EXAMPLE,
        env=os.environ
        | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            pytest_penstock.RUNNING_SERVER: postgres.admin_url,
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "9 passed" in ended.stdout
