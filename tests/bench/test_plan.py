"""What a run of the bench may be asked for."""

import pytest

from penstock.bench.plan import BenchPlan
from penstock.errors import ConfigError


def test_a_short_run_measures_less_latency() -> None:
    assert BenchPlan(jobs=2000).latency_jobs == 100
    assert BenchPlan(jobs=100_000).latency_jobs == 500


@pytest.mark.parametrize(
    "asked", [{"jobs": 999}, {"rounds": 0}, {"processes": 0}, {"backlog": (10,)}, {"dead": 5}]
)
def test_what_cannot_be_measured_is_refused_by_name(asked: dict[str, int]) -> None:
    [setting] = asked
    with pytest.raises(ConfigError, match=setting):
        BenchPlan(**asked)  # type: ignore[arg-type]
