"""docs/django.md where it speaks of django.tasks; the rest of it is followed with all the pages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.django.manage import ROOT
from tests.docs.page import Page
from tests.fixtures.database import Database

pytest.importorskip("django.tasks", reason="django.tasks is in Django from 6.0 on")

USE = """
from shop.models import Order
from shop.tasks import thank
print(thank.enqueue(Order.objects.create(item="kettle").pk).id)
"""
LOOK = """
from django.tasks import default_task_backend
print(default_task_backend.get_result("1").return_value)
"""


class Project:
    """The project that the guide makes, in a folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        cleared = {key: value for key, value in os.environ.items() if "DJANGO" not in key}
        self._environment = cleared | {"PENSTOCK_DATABASE_URL": url}
        (folder / "shop").mkdir()

    def follow(self, page: Page) -> None:
        """Write what the guide writes, the backend's settings among the project's."""
        for block in page.blocks:
            if block.file:
                (self._folder / block.file).write_text(block.text)
            elif block.text.startswith("TASKS"):
                with (self._folder / "shop" / "settings.py").open("a") as settings:
                    settings.write(block.text)
            elif block.language == "python":
                self.run("-c", block.text)

    def manage(self, *arguments: str) -> str:
        return self.run("manage.py", *arguments)

    def run(self, *command: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-B", *command],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


def test_the_guides_task_is_run_by_the_guides_worker(tmp_path: Path, database: Database) -> None:
    project = Project(tmp_path, database.url)
    project.follow(Page.read(ROOT / "docs" / "django.md"))
    project.manage("migrate", "-v", "0")
    assert project.manage("shell", "-v", "0", "-c", USE) == "1\n"
    assert project.manage("penstock", "work", "--drain").startswith("1 completed")
    looked = project.manage("shell", "-v", "0", "-c", LOOK)
    assert looked == "thanks for the kettle, attempt 1\n"
