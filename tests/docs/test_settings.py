"""docs/settings.md has every setting with its default, and none that does not exist."""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from inspect import Parameter, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import penstock
import pytest_penstock
from penstock import config
from penstock.insights import Thresholds
from penstock.integrations.django import settings as django
from penstock.tasks.options import Options, OptionValues
from penstock.tasks.settings import BatchTaskValues, TaskSettings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
SOURCES = [*Path(penstock.__file__).parent.rglob("*.py"), Path(pytest_penstock.__file__)]
ROW = re.compile(r"^\| `(\w+)` \|(?: (.+?) \|)?", re.MULTILINE)
VARIABLE = re.compile(r"\bPENSTOCK_[A-Z_]*[A-Z]")
REQUIRED = "required"


def documented(heading: str) -> dict[str, Any]:
    """The settings in the table below a heading, with their defaults."""
    [section] = re.findall(rf"^##+ {heading}$(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S)
    return {name: _read(default) for name, default in ROW.findall(section)}


def _read(default: str) -> Any:
    if default == REQUIRED:
        return REQUIRED
    assert re.fullmatch("`.+`", default), f"{default} is no default: write it as Python does"
    return eval(default.strip("`"), vars(penstock))


def of_call(call: Callable[..., Any]) -> dict[str, Any]:
    parameters = signature(call).parameters.values()
    return {
        each.name: REQUIRED if each.default is Parameter.empty else each.default
        for each in parameters
        if each.name != "self"
    }


def of_dataclass(group: type) -> dict[str, Any]:
    return {
        each.name: REQUIRED if each.default is MISSING else each.default for each in fields(group)
    }


def of_struct(kind: type[msgspec.Struct]) -> dict[str, Any]:
    found = {}
    for each in msgspec.structs.fields(kind):
        made = each.default_factory
        default = made() if made is not msgspec.NODEFAULT else each.default
        found[each.name] = REQUIRED if default is msgspec.NODEFAULT else default
    return found


def of_task() -> dict[str, Any]:
    """What the decorator takes; a task's name is made of its function's."""
    defaults = of_struct(Options) | of_struct(TaskSettings) | {"name": None}
    return {name: defaults[name] for name in BatchTaskValues.__optional_keys__}


def of_job() -> dict[str, Any]:
    return {name: of_struct(Options)[name] for name in OptionValues.__optional_keys__}


CODE: Mapping[str, dict[str, Any]] = {
    "Penstock": of_call(penstock.Penstock.__init__),
    "A worker": of_call(penstock.Penstock.worker),
    "Liveness": of_dataclass(config.Liveness),
    "Pace": of_dataclass(config.Pace),
    "Stopping": of_dataclass(config.Stopping),
    "Upkeep": of_dataclass(config.Upkeep),
    "JobLog": of_dataclass(config.JobLog),
    "A local pool": of_call(penstock.Penstock.local_pool),
    "Settings of a task": of_task(),
    "Isolation": of_struct(penstock.Process),
    "Micro-batching": of_struct(penstock.Batch),
    "Options of a job": of_job(),
    "A schedule": of_call(penstock.Penstock.schedule),
    "A queue": of_call(penstock.Penstock.set_queue),
    "A lane": of_call(penstock.Penstock.set_lane),
    "A limit": of_call(penstock.Penstock.set_limit),
    "A plan": of_call(penstock.Penstock.set_plan),
    "A tenant": of_call(penstock.Penstock.set_tenant),
    "Retention": of_call(penstock.Penstock.set_retention),
    "Thresholds": of_dataclass(Thresholds),
    "Exponential": of_struct(penstock.Exponential),
    "Fixed": of_struct(penstock.Fixed),
    "Listed": of_struct(penstock.Listed),
    "Function": of_struct(penstock.Function),
}


@pytest.mark.parametrize("heading", CODE)
def test_settings_are_documented_with_their_defaults(heading: str) -> None:
    assert documented(heading) == CODE[heading]


def test_every_group_of_settings_is_documented() -> None:
    groups = {
        kind.__name__
        for kind in vars(config).values()
        if isinstance(kind, type) and kind.__module__ == config.__name__
    }
    # A database is set through the app.
    assert groups - {"Database"} <= CODE.keys()
    given = {each.name for each in fields(config.Database)} - {"url"} | {"database_url"}
    assert given <= CODE["Penstock"].keys()


def test_the_settings_of_a_django_project_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    project = SimpleNamespace(DATABASES={"default": {}})
    monkeypatch.setattr(django, "settings", project)
    defaults = django.ProjectSettings.read()
    names = {name: getattr(defaults, name.lower()) for name in django.CHECKS}
    assert documented("Django") == names


def test_every_environment_variable_is_documented() -> None:
    used = {name for path in SOURCES for name in VARIABLE.findall(path.read_text())}
    [section] = re.findall(r"^## Environment$(.*?)^## ", PAGE.read_text(), re.M | re.S)
    assert set(re.findall(r"^\| `(PENSTOCK_\w+)` \|", section, re.M)) == used
