"""An exception becomes text that can be stored, whatever it does."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock.worker
from penstock.job import MESSAGE_LIMIT, TRACEBACK_LIMIT, AttemptError
from penstock.tasks import describe_error, raised_at


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def described(error: BaseException) -> AttemptError:
    with pytest.raises(type(error)) as caught:
        raise error
    return describe_error(caught.value)


def test_described_error_has_type_message_and_traceback() -> None:
    error = described(ValueError("no such page"))
    assert (error.kind, error.type, error.message) == ("failure", "ValueError", "no such page")
    assert "in described" in error.traceback
    assert error.traceback.endswith("ValueError: no such page\n")


def test_a_type_of_a_module_is_named_with_it() -> None:
    assert described(Hostile()).type == f"{__name__}.Hostile"


def test_an_error_knows_its_attempt_and_worker() -> None:
    error = describe_error(TimeoutError(), kind="timeout", attempt=2, worker="w1")
    assert (error.kind, error.attempt, error.worker) == ("timeout", 2, "w1")


def test_error_whose_str_raises_is_described() -> None:
    error = described(Hostile())
    assert "str() raised RuntimeError" in error.message
    assert "Hostile" in error.traceback


@given(st.text(st.characters(), max_size=200))
def test_any_text_in_an_error_becomes_storable(text: str) -> None:
    error = described(ValueError(text))
    for part in (error.message, error.traceback):
        part.encode()
        assert "\0" not in part


def test_long_errors_keep_the_end_of_their_traceback() -> None:
    error = described(ValueError("é" * 100_000 + "the end"))
    assert len(error.message.encode()) <= MESSAGE_LIMIT
    assert error.message.startswith("éé")
    assert len(error.traceback.encode()) <= TRACEBACK_LIMIT
    assert error.traceback.endswith("the end\n")


def recurse(depth: int) -> int:
    return recurse(depth + 1) + 1


def test_endless_recursion_is_described_in_bounds() -> None:
    with pytest.raises(RecursionError) as caught:
        recurse(0)
    error = describe_error(caught.value)
    assert error.type == "RecursionError"
    assert len(error.traceback.encode()) <= TRACEBACK_LIMIT


def test_a_cause_is_part_of_the_traceback() -> None:
    cause = KeyError("page")
    error = ValueError("no such page")
    error.__cause__ = cause
    assert "KeyError: 'page'" in described(error).traceback


def test_endless_causes_are_described_in_bounds() -> None:
    error = ValueError("first")
    for _ in range(5000):
        following = ValueError("next")
        following.__cause__ = error
        error = following
    assert len(describe_error(error).traceback.encode()) <= TRACEBACK_LIMIT


def test_the_place_of_a_failure_is_in_the_users_own_code() -> None:
    def parse() -> object:
        return json.loads("{")

    try:
        parse()
    except ValueError as error:
        told = describe_error(error).traceback
    line = parse.__code__.co_firstlineno + 1
    assert "decoder.py" in told
    assert raised_at(told) == f"{Path(__file__).relative_to(Path.cwd())}:{line} in parse"


def test_the_place_of_a_failure_is_not_in_penstock() -> None:
    inside = Path(penstock.worker.__file__)
    told = f'  File "/shop/jobs.py", line 12, in send\n  File "{inside}", line 3, in sleep\n'
    assert raised_at(told) == "/shop/jobs.py:12 in send"


def test_the_place_of_a_group_is_where_its_last_error_was_raised() -> None:
    def fetch() -> None:
        raise OSError("no route")

    async def fetch_all() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(fetch))

    try:
        asyncio.run(fetch_all())
    except ExceptionGroup as error:
        told = describe_error(error).traceback
    line = fetch.__code__.co_firstlineno + 1
    assert raised_at(told).endswith(f":{line} in fetch")


def test_a_failure_without_frames_has_no_place() -> None:
    assert raised_at("") == ""
    assert raised_at("ValueError: no such address") == ""
