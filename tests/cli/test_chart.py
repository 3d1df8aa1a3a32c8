"""Throughput drawn with characters."""

from penstock.demo.summary import plot, sparkline


def test_sparkline_scales_the_newest_values_to_the_highest() -> None:
    assert sparkline([5, 0, 1, 4, 8], width=4) == " ▁▄█"
    assert sparkline([], width=4) == ""


def test_the_least_job_shows() -> None:
    assert sparkline([1, 10_000], width=2) == "▁█"


def test_a_plot_has_a_scale_and_marks_under_their_seconds() -> None:
    drawn = plot([0, 2, 4, 1], 0.5, {0.6: "✗"}, height=2)
    assert drawn.splitlines() == [
        "      4/s │  █ ",
        "          │ ██▄",
        "        0 └────",
        "            ✗",
        "           0 s 2 s",
    ]
