import logging
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.backoff import (
    MAX_DELAY_S,
    Exponential,
    Fixed,
    Function,
    Listed,
    Policy,
    Storable,
    dump_policy,
    load_policy,
)
from penstock.errors import ConfigError

RNG = Random(0)


def delays(policy: Policy, failures: int = 7) -> list[float]:
    return [policy.delay(number, RNG) for number in range(1, failures + 1)]


def test_the_default_doubles_from_30_s_up_to_10_minutes() -> None:
    assert delays(Exponential(jitter=0)) == [30, 60, 120, 240, 480, 600, 600]


def test_a_configured_exponential_gives_powers_of_two_in_minutes() -> None:
    policy = Exponential(base=60, cap=86_400, jitter=0)
    assert delays(policy, 5) == [60 * 2**n for n in range(5)]


def test_a_fixed_delay_never_changes() -> None:
    assert delays(Fixed(5), 3) == [5, 5, 5]


def test_of_listed_delays_the_last_repeats() -> None:
    assert delays(Listed([1, 5, 30]), 5) == [1, 5, 30, 30, 30]


def test_a_function_gets_the_number_of_failures() -> None:
    assert delays(Function(lambda failures: failures**2), 3) == [1, 4, 9]


def nonsense(_: int) -> float:
    return float("nan")


def broken(_: int) -> float:
    raise RuntimeError


@pytest.mark.parametrize("fn", [nonsense, broken, lambda _: -1, lambda _: "soon"])
def test_failing_retry_function_is_logged_and_replaced(
    fn: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert 27 <= Function(fn).delay(1, RNG) <= 30  # type: ignore[arg-type]
    assert "A retry function raised an error" in caplog.text


@given(st.integers(0, 10**6), st.integers())
def test_jitter_only_shortens_a_capped_delay(failures: int, seed: int) -> None:
    delay = Exponential().delay(failures, Random(seed))
    exact = Exponential(jitter=0).delay(failures, RNG)
    assert 0.9 * exact <= delay <= exact <= 600


def test_jitter_spreads_jobs_that_failed_together() -> None:
    assert len({Exponential().delay(1, Random(seed)) for seed in range(50)}) == 50


@pytest.mark.parametrize(
    "policy",
    [Exponential(), Exponential(base=60, factor=3, cap=1e6, jitter=0.5), Fixed(5), Listed([1, 5])],
    ids=str,
)
def test_a_policy_survives_being_stored_with_a_job(policy: Storable) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(dump_policy(policy)))
    assert load_policy(stored) == policy
    assert stored["kind"] == type(policy).__name__.lower()


def test_a_function_cannot_be_stored_with_a_job() -> None:
    with pytest.raises(ConfigError, match="can only be given to the task itself"):
        dump_policy(Function(len))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: Exponential(base=-1), "retry.base"),
        (lambda: Exponential(base=True), "retry.base"),
        (lambda: Exponential(cap=MAX_DELAY_S + 1), "retry.cap"),
        (lambda: Exponential(factor=0.5), "retry.factor"),
        (lambda: Exponential(jitter=1.5), "retry.jitter"),
        (lambda: Fixed(float("nan")), "retry.seconds"),
        (lambda: Fixed("5"), "retry.seconds"),  # type: ignore[arg-type]
        (lambda: Listed([]), "retry.seconds"),
        (lambda: Listed([1, float("inf")]), "retry.seconds"),
        (lambda: Listed("15"), "retry.seconds"),  # type: ignore[arg-type]
        (lambda: Listed(5), "retry.seconds"),  # type: ignore[arg-type]
        (lambda: Function(5), "retry.fn"),  # type: ignore[arg-type]
        (lambda: load_policy({"kind": "magic"}), "retry"),
        (lambda: load_policy({"kind": "fixed"}), "retry"),
        (lambda: load_policy({"kind": "fixed", "seconds": -1}), "retry.seconds"),
        (lambda: load_policy("soon"), "retry"),
    ],
)
def test_what_is_no_policy_is_refused_with_the_setting(make: object, setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()  # type: ignore[operator]
    assert caught.value.setting == setting
