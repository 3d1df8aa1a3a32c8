"""A report as a whole, and numbers as people read them."""

import pytest

from penstock.doctor import CHECKS, Finding, Report, Result, Verdict
from penstock.wording import counted, listed, size, span


def report(*verdicts: str) -> Report:
    results = [
        Result(CHECKS[0], tuple(Finding(Verdict(word), "seen") for word in words.split()))
        for words in verdicts
    ]
    return Report("shop on localhost", "penstock", "1.0", tuple(results))


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["ok", "ok"], "ok"),
        (["ok", "skipped"], "ok"),
        (["skipped", "skipped"], "skipped"),
        (["ok", "warning", "skipped"], "warning"),
        (["warning", "error", "ok"], "error"),
        (["ok skipped", "ok"], "ok"),
        (["ok", "error warning"], "error"),
    ],
)
def test_the_worst_verdict_counts_and_what_was_skipped_does_not(
    verdicts: list[str], expected: str
) -> None:
    assert report(*verdicts).verdict == expected


def test_a_document_has_the_verdict_the_counts_and_all_findings() -> None:
    document = report("ok", "error warning").as_document()
    assert document["verdict"] == "error"
    assert document["counts"] == {"ok": 1, "skipped": 0, "warning": 0, "error": 1}
    [_, second] = document["checks"]
    assert second["check"] == CHECKS[0].name
    assert second["findings"][0] == {
        "verdict": "error",
        "seen": "seen",
        "remedy": "",
        "paste": (),
    }


def test_names_of_checks_are_different() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.02, "20 ms"),
        (1.44, "1.4 s"),
        (59, "59 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (3600, "1 h"),
        (3600 * 3 + 60 * 12 + 5, "3 h 12 min"),
        (86_400 * 2 + 3600, "2 d 1 h"),
    ],
)
def test_a_span_of_time(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_sizes_counts_and_lists() -> None:
    assert (size(10), size(1536), size(3 << 30)) == ("10 bytes", "1.5 kB", "3.0 GB")
    assert (counted(1, "job"), counted(1200, "job")) == ("1 job", "1,200 jobs")
    assert counted(10, "job", most=10) == "10 or more jobs"
    assert listed("abcdefg", most=5) == "a, b, c, d, e and 2 more"
