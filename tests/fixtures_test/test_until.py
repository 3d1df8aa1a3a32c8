import pytest

from tests.fixtures.until import until


async def test_it_returns_the_first_true_value():
    values = iter([0, None, "", "here"])
    assert await until(lambda: next(values)) == "here"


async def test_it_awaits_an_async_condition():
    values = iter([False, True])

    async def condition() -> bool:
        return next(values)

    assert await until(condition) is True


async def test_it_says_what_it_waited_for():
    with pytest.raises(TimeoutError, match=r"0\.05 s in vain for the tide; last: 0"):
        await until(lambda: 0, timeout=0.05, what="the tide")


async def test_an_error_in_the_condition_is_not_waited_out():
    with pytest.raises(ZeroDivisionError):
        await until(lambda: 1 / 0)
