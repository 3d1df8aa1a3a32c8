"""When an app with knowledge is made: what its installation sets is read then, and not before."""

import os
import sys
from subprocess import run

import pytest

from penstock import ConfigError, Penstock, Process
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.pipeline import tasks
from penstock_apps.knowledge.settings import PREFIX

NOWHERE = "postgresql://nowhere/x"
MB = 1024 * 1024


def reading_of(app: Penstock) -> dict[str, Process]:
    """How the tasks that read files are isolated in an app."""
    found = {}
    for each in tasks.READING:
        isolate = app.tasks.get(each.name).settings.isolate
        assert isinstance(isolate, Process)
        found[each.name] = isolate
    return found


def test_bad_variable_breaks_no_import() -> None:
    modules = "http, knowledge, library, pipeline.tasks, pipeline.editions"
    imports = "; ".join(f"import penstock_apps.knowledge.{each}" for each in modules.split(", "))
    environment = os.environ | {f"{PREFIX}EXTRACT_MEMORY": "lots", f"{PREFIX}PAGES": "many"}
    ended = run([sys.executable, "-c", imports], env=environment, capture_output=True, text=True)
    assert ended.stderr == ""
    assert ended.returncode == 0


def test_bad_variable_is_refused_when_app_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}EXTRACT_MEMORY", "lots")
    with pytest.raises(ConfigError) as refused:
        Knowledge(Penstock(NOWHERE))
    assert refused.value.setting == f"{PREFIX}EXTRACT_MEMORY"


def test_each_app_has_the_limits_that_are_set_when_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Knowledge(first := Penstock(NOWHERE))
    monkeypatch.setenv(f"{PREFIX}EXTRACT_MEMORY", "300MB")
    monkeypatch.setenv(f"{PREFIX}EXTRACT_SECONDS", "7")
    Knowledge(second := Penstock(NOWHERE))
    told = {(each.memory, each.seconds, each.deaths) for each in reading_of(second).values()}
    assert told == {(300 * MB, 7, 2)}
    assert {(each.memory, each.seconds) for each in reading_of(first).values()} == {
        (1024 * MB, 600)
    }
