"""What the page says of the comparison."""

from typing import Any

import pytest

from benchmarks.comparison.entrant import spelled
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.spread import Spread
from benchmarks.comparison.table import ROWS
from benchmarks.page import peers
from benchmarks.page.markdown import fill, table


def peer(name: str, **medians: float) -> dict[str, Any]:
    """With 100 in every row but those that are named."""
    rows = {key: medians.get(key, 100.0) for key, _, _ in ROWS}
    return {
        "name": name,
        "home": "https://example.com",
        "version": "1.0",
        "jobs": 1000,
        "settings": {"batch": 1000},
        "reasons": ["Because."],
        "tried_per_s": {"batch 10": 5.0, "batch 1,000": 50.0},
        **{key: Spread(value, value / 2, value * 2).as_dict() for key, value in rows.items()},
    }


def run(**others: dict[str, Any]) -> dict[str, Any]:
    return {
        "rounds": 3,
        "peers": {"penstock": peer("Penstock"), **others},
        "left_out": {},
        "postgres": "18.4",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "python": "3.12.1",
        "machine": {"system": "Linux", "cores": 2, "load_before": 0.1},
    }


def test_a_spread_is_the_median_and_the_range() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0)


def test_cell_shows_the_range_unless_there_was_one_round() -> None:
    assert peers.cell(Spread(1500.0, 1000.0, 2000.0).as_dict(), 0) == "1,500<br>1,000–2,000"
    assert peers.cell(Spread(1.5, 1.5, 1.5).as_dict(), 1) == "1.5"
    assert peers.cell(None, 0) == "–"


def test_a_higher_rate_and_a_lower_time_of_another_are_told() -> None:
    fast = peer("Fast", single_per_s=120.0, pick_up_p50_ms=90.0, memory_mb=110.0)

    assert peers.losses(run(fast=fast)) == (
        "- enqueue one by one, jobs/s: Fast 120; Penstock 100\n"
        "- pick-up, median, ms: Fast 90.0; Penstock 100.0\n"
    )


def test_where_nobody_is_better_it_says_so() -> None:
    assert "nobody" in peers.losses(run(slow=peer("Slow", drain_per_s=1.0)))


def test_what_was_left_out_is_told_with_the_reason() -> None:
    document = {**run(), "left_out": {"oban": "it needs Python 3.12"}}

    assert peers.rates(document).endswith("\nLeft out: oban: it needs Python 3.12.\n")


def test_a_busy_machine_makes_the_table_preliminary() -> None:
    busy = run()
    busy["machine"]["load_before"] = 7.0

    assert "preliminary" in peers.rates(busy)
    assert "preliminary" not in peers.rates(run())


def test_page_shows_settings_with_reasons_and_alternatives() -> None:
    assert peers.settings(run()) == (
        "- **Penstock**, `batch` 1,000. Because. Tried, in jobs/s of a shorter drain: "
        "batch 10: 5; batch 1,000: 50.\n"
    )


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = "before\n<!-- results: some -->\nold\n<!-- end -->\nafter\n"

    assert fill(page, {"some": lambda: "new\n"}) == page.replace("old", "new")


def test_a_table_of_words_is_not_set_to_the_right() -> None:
    assert table(["a", "b"], [["c", "d"]], numbers=False) == "| a | b |\n| --- | --- |\n| c | d |\n"


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, "defaults"), ({"batch": 1000, "flush": 0.05}, "batch 1,000, flush 0.05")],
)
def test_settings_are_spelled_in_one_line(settings: dict[str, float], said: str) -> None:
    assert spelled(settings) == said


def test_a_quick_run_has_enough_jobs_for_ten_tenths() -> None:
    assert Plan.quick().jobs(4000) == 100
    assert Plan().jobs(4000) == 4000
