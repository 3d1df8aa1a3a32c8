"""A project whose TASKS name Penstock's backend, and whose INSTALLED_APPS do not name Penstock."""

import textwrap
from pathlib import Path

import pytest

from tests.django.manage import manage

pytest.importorskip("django.tasks", reason="django.tasks is in Django from 6.0 on")

FILES = {
    "shop/__init__.py": "",
    "shop/settings.py": """
        SECRET_KEY = "for tests"
        INSTALLED_APPS = ["shop"]
        DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}}
        TASKS = {"default": {"BACKEND": "penstock.integrations.django.tasks.PenstockBackend"}}
        """,
    "shop/tasks.py": """
        from django.tasks import task

        @task
        def thank():
            return "thanks"
        """,
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def checked(project: Path) -> str:
    """What `manage.py check` says, which must not be content."""
    given = ("check", "--settings", "shop.settings", "--pythonpath", str(project))
    return manage("dbname=shop", *given, code=1).stderr


def test_check_finds_it_where_an_app_imports_penstock(project: Path) -> None:
    (project / "shop" / "models.py").write_text("import penstock.integrations.django\n")
    assert checked(project).count("penstock.E002") == 1


def test_check_finds_it_where_only_the_urls_import_the_tasks(project: Path) -> None:
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write('ROOT_URLCONF = "shop.urls"\n')
    (project / "shop" / "urls.py").write_text("import shop.tasks\nurlpatterns = []\n")
    assert 'Add "penstock.integrations.django" to INSTALLED_APPS' in checked(project)


def test_check_finds_it_where_models_import_the_tasks(project: Path) -> None:
    (project / "shop" / "models.py").write_text("import shop.tasks\n")
    assert 'Add "penstock.integrations.django" to INSTALLED_APPS' in checked(project)
