"""When an app with knowledge is made: what its installation sets is read then, and not before."""

import os
import sys
from subprocess import run

import pytest

from penstock import ConfigError, Exponential, Penstock, Process
from penstock_apps.knowledge import tasks
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.settings import PREFIX
from tests.knowledge.scene import Scene

NOWHERE = "postgresql://nowhere/x"
MB = 1024 * 1024


def reading_of(app: Penstock) -> dict[str, Process]:
    """How the tasks that read files are isolated in an app."""
    found = {}
    for each in tasks.ISOLATED_TASKS:
        isolate = app.tasks.get(each.name).settings.isolate
        assert isinstance(isolate, Process)
        found[each.name] = isolate
    return found


def test_bad_variable_breaks_no_import() -> None:
    modules = "http, knowledge, library, tasks, maintenance.reembed"
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


def test_retries_of_documents_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}RETRY_SECONDS", "2")
    monkeypatch.setenv(f"{PREFIX}RETRY_MOST_SECONDS", "9")
    monkeypatch.setenv(f"{PREFIX}DEATHS", "3")
    Knowledge(app := Penstock(NOWHERE))
    policies = {app.tasks.get(each.name).settings.retry for each in tasks.ISOLATED_TASKS}
    assert policies == {Exponential(base=2, cap=9)}
    assert {each.deaths for each in reading_of(app).values()} == {3}


def test_retries_of_calls_to_models_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}EMBED_RETRY_SECONDS", "3")
    monkeypatch.setenv(f"{PREFIX}EMBED_RETRY_MOST_SECONDS", "8")
    Knowledge(app := Penstock(NOWHERE))
    assert app.tasks.get("knowledge.embed").settings.retry == Exponential(base=3, cap=8)


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}ATTEMPTS", "1")


@pytest.mark.usefixtures("one_attempt")
async def test_document_is_tried_as_often_as_is_set(scene: Scene, library: Library) -> None:
    await scene.add(library, {"a.txt": "A weir holds water back."})
    await scene.rows('UPDATE k.edition SET settings = \'{"embedding": {"provider": 1}}\'')
    await scene.drain(scheduled=True)
    [job] = (await scene.app.list(task=tasks.ingest)).jobs
    assert (job.state, job.failures, job.max_attempts) == ("failed", 1, 1)
