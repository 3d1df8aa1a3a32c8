from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.job import FINAL, LIVE, STATES, AttemptError, Job, State, storable

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("state", STATES)
def test_a_job_is_final_when_it_is_completed_failed_or_cancelled(state: State) -> None:
    job = Job(id="1", task="t", state=state, args={}, created_at=NOW)
    assert job.is_final == (state in {"completed", "failed", "cancelled"})


def test_every_state_is_either_live_or_final() -> None:
    assert set(STATES) == LIVE | FINAL
    assert not LIVE & FINAL


def test_a_job_is_frozen_and_survives_json() -> None:
    error = AttemptError(type="ValueError", message="no", attempt=1, worker="w", at=NOW)
    job = Job(id="1", task="t", state="failed", args={"n": 1}, created_at=NOW, errors=(error,))
    with pytest.raises(AttributeError):
        job.state = "ready"  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job


def test_the_last_error_is_the_newest() -> None:
    errors = tuple(AttemptError(type="E", message=str(n)) for n in range(3))
    job = Job(id="1", task="t", state="failed", args={}, created_at=NOW, errors=errors)
    assert job.last_error is errors[-1]
    assert Job(id="1", task="t", state="ready", args={}, created_at=NOW).last_error is None


def test_an_error_is_read_from_what_any_sql_may_have_stored() -> None:
    stored = b'{"type": "E", "message": "m", "added later": 1}'
    assert msgspec.json.decode(stored, type=AttemptError) == AttemptError(type="E", message="m")


any_text = st.text(st.characters(), max_size=60)


@given(any_text, st.integers(3, 50), st.booleans())
def test_storable_text_has_no_nul_and_keeps_its_limit(
    text: str, limit: int, keep_end: bool
) -> None:
    stored = storable(text, limit, keep_end=keep_end)
    assert "\0" not in stored
    assert len(stored.encode()) <= limit


def test_storable_text_that_is_too_long_shows_where_it_was_cut() -> None:
    assert storable("abcdefgh", 6) == "abc…"
    assert storable("abcdefgh", 6, keep_end=True) == "…fgh"
    assert storable("abcdef", 6) == "abcdef"
    assert storable("a\0b\ud800", 20) == "a\ufffdb\ufffd"
