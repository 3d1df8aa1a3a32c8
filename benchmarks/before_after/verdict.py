"""Whether a commit is no slower than another, and whether the run can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from benchmarks.before_after.ratio import Ratio

CPU_AT_MOST = 1.03
RATE_TO_REACH = 0.97

Ratios = Mapping[str, Ratio]


class Verdict(StrEnum):
    """What a run says, from the best to the worst: the worst of its scenes counts."""

    no_slower = "no slower"
    unclear = "cannot tell"
    slower = "slower"

    @property
    def exit_code(self) -> int:
        """Not 1 and 2, which a run has that does not come to its end."""
        return {Verdict.no_slower: 0, Verdict.slower: 3, Verdict.unclear: 4}[self]


def judged(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with a verdict on each scene, its reasons, and the verdict on all of them."""
    measured: Mapping[str, Any] = document["scenes"]
    scenes = {name: {**scene, **_verdict(scene["rows"])} for name, scene in measured.items()}
    verdict = worst([scene["verdict"] for scene in scenes.values()])
    return {**document, "scenes": scenes, "verdict": verdict}


def _verdict(rows: Mapping[str, Any]) -> dict[str, Any]:
    ratios, spread = (
        {key: Ratio(**row[what]) for key, row in rows.items() if what in row}
        for what in ("ratio", "spread")
    )
    verdict, reasons = judge(ratios, spread)
    return {"verdict": verdict, "reasons": reasons}


def judge(ratios: Ratios, spread: Ratios) -> tuple[Verdict, list[str]]:
    """Of one scene, with reasons. What a commit differs from itself by proves nothing."""
    misses = list(_misses(ratios))
    # Which of two equals comes first is chance.
    other_way = {key: ratio.inverse for key, ratio in spread.items()}
    noise = [f"{one} (before ÷ itself)" for one in (*_misses(spread), *_misses(other_way))]
    if not noise:
        return (Verdict.slower if misses else Verdict.no_slower), misses
    is_beyond_noise = any(_misses(ratios, spread))
    return (Verdict.slower if is_beyond_noise else Verdict.unclear), [*misses, *noise]


def _misses(ratios: Ratios, allowing_for: Ratios | None = None) -> Iterator[str]:
    for key, ratio in ratios.items():
        noise = _noise((allowing_for or {}).get(key))
        if key.endswith("_cpu_ms") and ratio.median > CPU_AT_MOST * noise:
            yield f"{key}: the ratio is {ratio.median:.3f}, and may be {CPU_AT_MOST}"
        if key.endswith("_per_s") and ratio.high * noise < RATE_TO_REACH:
            interval = f"{ratio.low:.3f}–{ratio.high:.3f}"
            yield f"{key}: the ratio is within {interval}, and has to reach {RATE_TO_REACH}"


def _noise(spread: Ratio | None) -> float:
    """The factor by which two equals differ."""
    return max(spread.median, spread.inverse.median) if spread else 1.0


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """What is slower in one scene is slower, whatever cannot be told of others."""
    return max(verdicts, key=list(Verdict).index)
