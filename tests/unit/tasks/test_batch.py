"""How a task is told to take many jobs in one call."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from penstock import Batch, BatchContext, Context, Item, Process, task
from penstock.config import Upkeep
from penstock.errors import ConfigError
from penstock.tasks.settings import MAX_LINGER_S
from penstock.worker.timing import Timing


class Chunk(msgspec.Struct):
    text: str


@pytest.mark.parametrize(
    "values",
    [
        {"size": 0},
        {"size": 10_001},
        {"size": True},
        {"size": 8, "linger": -1},
        {"size": 8, "linger": 30.5},
        {"size": 8, "linger": timedelta(minutes=1)},
        {"size": 8, "linger": "soon"},
        {"size": 8, "key": "queue"},
        {"size": 8, "fails_all": OSError},
        {"size": 8, "fails_all": (BaseException,)},
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"batch\."):
        Batch(**values)


def test_a_linger_may_be_a_timedelta() -> None:
    assert Batch(8, linger=timedelta(milliseconds=20)).seconds == 0.02
    assert Batch(8).seconds == 0.05


def test_longest_linger_is_shorter_than_the_overtime_grace() -> None:
    """A job is taken back by its claim and its timeout, while the timeout begins with the call."""
    assert Batch(8, linger=MAX_LINGER_S).seconds + Timing().items_wait < Upkeep().overtime_grace


def test_a_job_has_one_argument_of_the_type_that_the_items_hold() -> None:
    @task(batch=Batch(size=8))
    async def embed(ctx: BatchContext, texts: list[Item[Chunk]]) -> list[int]:
        return [len(item.value.text) for item in texts]

    request = embed.prepare(Chunk("one"))
    assert request.args == '{"item":{"text":"one"}}'
    assert embed.prepare(item=Chunk("one")).args == request.args
    assert embed.decode(request.args, 1) == ((Chunk("one"),), {})
    assert (embed.is_async, embed.takes_context) == (True, True)
    with pytest.raises(TypeError):
        embed.prepare(Chunk("one"), Chunk("two"))  # type: ignore[call-arg]


@pytest.mark.parametrize("hint", [None, list, list[Item], Sequence[Item[Any]], list[Item[Any]]])
def test_items_without_a_type_hold_anything(hint: Any) -> None:
    def handle(items: Any) -> list[None]:
        return []

    handle.__annotations__ = {} if hint is None else {"items": hint}
    made = task(batch=Batch(size=8))(handle)
    assert made.decode('{"item": [1, "a"]}', 1) == (([1, "a"],), {})


def test_another_signature_is_refused() -> None:
    decorate: Any = task(batch=Batch(size=8))

    def two(items: list[Item[int]], more: int) -> list[None]: ...
    def none() -> list[None]: ...
    def rest(*items: Item[int]) -> list[None]: ...
    def wrong_context(ctx: Context, items: list[Item[int]]) -> list[None]: ...

    for handler in (two, none, rest, wrong_context):
        with pytest.raises(ConfigError, match="BatchContext"):
            decorate(handler)


@pytest.mark.parametrize("hint", [int, list[int], dict[str, Item[int]], Item[int]])
def test_batch_handler_must_take_a_list_of_items(hint: Any) -> None:
    def handle(items: Any) -> list[None]:
        return []

    handle.__annotations__ = {"items": hint}
    made = task(batch=Batch(size=8))(handle)
    with pytest.raises(ConfigError, match="list"):
        made.check()


def test_only_a_batch_will_do() -> None:
    with pytest.raises(ConfigError, match="Batch"):
        task(batch=64)(lambda items: items)  # type: ignore


def test_a_call_that_jobs_share_runs_in_the_worker() -> None:
    with pytest.raises(ConfigError, match="where batch is set"):
        task(batch=Batch(size=8), isolate=Process())(lambda items: items)
