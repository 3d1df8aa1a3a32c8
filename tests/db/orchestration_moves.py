"""What callers, workers and people may do in the play of unique jobs, batches and workflows."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.db.model import FINAL, Outcome
from tests.db.orchestration_model import LIVE, WAITING, Unique

MOMENTS = ("failure", "success", "end")
# What people ask for, and the states in which a job may be asked for it.
WISHES = {
    "retry": FINAL,
    "redrive": ("failed",),
    "cancel": LIVE,
    "unblock": ("blocked",),
    "delete": (*WAITING, *FINAL),
}

policies = st.sampled_from(["cancel", "continue", "wait"])
outcomes = st.sampled_from([*Outcome, Outcome.DONE, Outcome.DISCARD, Outcome.DISCARD])
# Which of those that there are, whatever their number.
picks = st.integers(0, 30)
rules = st.builds(
    Unique,
    key=st.sampled_from(["a", "b"]),
    on_conflict=st.sampled_from(["skip", "skip", "replace", "replace", "supersede", "raise"]),
    hold=st.sampled_from(["live", "waiting"]),
    keep=st.sampled_from([None, None, 45.0]),
    period=st.sampled_from([None, None, 100.0]),
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A request before it is known which jobs there are."""

    unique: Unique | None
    delay: float
    deadline: float | None
    max_attempts: int
    steps: dict[int, str]
    parent: tuple[int, str] | None
    child: tuple[int, str] | None


drafts = st.builds(
    Draft,
    unique=st.none() | rules,
    delay=st.sampled_from([0.0, 0.0, 30.0]),
    deadline=st.sampled_from([None, None, None, 50.0]),
    max_attempts=st.integers(1, 3),
    steps=st.dictionaries(st.integers(1, 3), policies, max_size=3),
    parent=st.none() | st.tuples(picks, policies),
    child=st.one_of(st.none(), st.none(), st.tuples(picks, policies)),
)


def may(name: str, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(name), st.fixed_dictionaries(given))


enqueues = may(
    "callers_enqueue",
    given=st.lists(drafts, min_size=1, max_size=4),
    into=st.sampled_from(["", "batch", "workflow", "workflow", "both"]),
    pick=st.one_of(st.none(), picks, picks),
)
works = may(
    "workers_claim_and_settle",
    pick=picks,
    limit=st.integers(1, 5),
    given=st.lists(outcomes, max_size=4),
)
wishes = may(
    "somebody_wishes",
    wish=st.sampled_from(sorted(WISHES)),
    chosen=st.lists(picks, min_size=1, max_size=3),
)
moves = st.one_of(
    enqueues,
    enqueues,
    works,
    works,
    wishes,
    wishes,
    may(
        "workers_settle_with_tokens_of_any_age",
        given=st.dictionaries(picks, outcomes, min_size=1, max_size=4),
    ),
    may(
        "time_passes",
        seconds=st.sampled_from([1, 10, 30, 61, 61, 7200, 40 * 86400]),
        dying=st.sampled_from([0, 0, 1, 2]),
        sweeps=st.booleans(),
        ends=st.one_of(st.none(), st.none(), picks),
    ),
    may(
        "a_batch_is_opened_closed_or_folded",
        use=st.sampled_from(["open", "close", "close", "fold", "fold twice"]),
        moments=st.sets(st.sampled_from(MOMENTS), min_size=1),
    ),
)
