"""The keys of unique jobs, and the rules that are refused."""

from datetime import timedelta
from typing import Any

import pytest

from penstock import Unique
from penstock.errors import ConfigError
from penstock.tasks import Task
from penstock.tasks.task import make_task


def unique(rule: Unique | bool | None) -> Task[..., Any]:
    def index(document: int, text: str = "", options: dict[str, Any] | None = None) -> None: ...

    return make_task(index, {"name": "index", "unique": rule})


def key(task: Task[..., Any], *args: Any, **kwargs: Any) -> str | None:
    rule = task.prepare(*args, **kwargs).options.unique
    assert rule is not None
    return rule.key


def test_a_key_is_made_of_the_task_and_all_arguments() -> None:
    task = unique(True)
    assert key(task, 1, "a") == key(task, text="a", document=1)
    assert key(task, 1, "a") != key(task, 1, "b")
    assert str(key(task, 1)).startswith("index:")


def test_or_of_those_that_are_named() -> None:
    task = unique(Unique(args=["document"]))
    assert key(task, 1, "a") == key(task, 1, "b") != key(task, 2, "a")


def test_an_argument_that_is_left_out_counts_with_its_default() -> None:
    assert key(unique(True), 1) == key(unique(True), 1, "", None)
    assert key(unique(Unique(args="text")), 1) == key(unique(Unique(args="text")), 2, "")


def test_the_order_of_an_arguments_fields_makes_no_other_key() -> None:
    task = unique(True)
    assert key(task, 1, options={"a": 1, "b": 2}) == key(task, 1, options={"b": 2, "a": 1})


def test_unique_key_fills_in_arguments_in_braces() -> None:
    assert key(unique(Unique(key="nightly")), 1) == "nightly"
    assert key(unique(Unique(key="document:{document}:{text}")), 7) == "document:7:"
    assert key(unique(Unique(key="{options[to]}")), 7, options={"to": "a{b}"}) == "a{b}"


def test_keys_without_braces_make_no_new_options() -> None:
    rule = Unique(key="nightly")
    assert unique(rule).prepare(1).options.unique is rule


@pytest.mark.parametrize("name", ["{documnt}", "{}", "{document"])
def test_unique_key_with_an_unknown_argument_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"unique\.key.*names of arguments in braces"):
        unique(Unique(key=name))
    with pytest.raises(ConfigError, match=r"unique\.args.*document"):
        unique(Unique(args=[name]))


def test_a_filled_key_is_checked_as_one_that_is_given() -> None:
    with pytest.raises(ConfigError, match="1 to 500 characters"):
        unique(Unique(key="{text}")).prepare(1, "x" * 501)
    with pytest.raises(ConfigError, match="given are document"):
        unique(None).options(unique=Unique(key="{page}")).prepare(1)


def test_no_rule_can_be_chosen_for_one_job() -> None:
    assert unique(True).options(unique=None).prepare(1).options.unique is None


@pytest.mark.parametrize(
    "values",
    [
        {"hold": "running"},
        {"on_conflict": "ignore"},
        {"keep": 0},
        {"period": timedelta(0)},
        {"args": 7},
        {"key": ""},
        {"key": "a\0"},
        {"key": "a", "args": ["b"]},
        {"hold": "waiting", "keep": 60},
        {"hold": "waiting", "period": 60},
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Unique(**values)


def test_times_may_be_timedeltas() -> None:
    assert Unique(keep=timedelta(minutes=1), period=3600).stored() == {
        "key": None,
        "hold": "live",
        "on_conflict": "skip",
        "keep": 60.0,
        "period": 3600.0,
    }
