"""Keys of limits that name arguments."""

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.tasks import Task
from penstock.tasks.task import make_task


def limited(*limits: str) -> Task[..., Any]:
    def fetch(account: str, page: int = 1, meta: dict[str, str] | None = None) -> None: ...

    return make_task(fetch, {"limits": limits})


def keys(task: Task[..., Any], *args: Any, **kwargs: Any) -> tuple[str, ...]:
    return task.prepare(*args, **kwargs).options.limits


def test_a_name_in_braces_is_that_arguments_value() -> None:
    task = limited("model", "account:{account}", "page:{page}")
    assert keys(task, "acme", 7) == ("model", "account:acme", "page:7")
    assert keys(task, page=2, account="beta") == ("model", "account:beta", "page:2")


def test_an_argument_that_is_left_out_has_its_default_in_a_key() -> None:
    assert keys(limited("page:{page}"), "acme") == ("page:1",)


def test_a_part_of_an_argument_will_do() -> None:
    assert keys(limited("region:{meta[region]}"), "acme", meta={"region": "eu"}) == ("region:eu",)


def test_keys_without_braces_cost_nothing() -> None:
    task = limited("model")
    assert task.prepare("acme").options is task.defaults


@pytest.mark.parametrize("key", ["account:{acount}", "{}", "account:{account"])
def test_limit_key_with_an_unknown_argument_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="names of arguments in braces"):
        limited(key)


def test_options_with_such_a_name_are_refused_when_they_are_used() -> None:
    with pytest.raises(ConfigError, match="given are account"):
        limited().options(limits="account:{acount}").prepare("acme")
    with pytest.raises(ConfigError, match="given are account"):
        limited("region:{meta[region]}").prepare("acme")
