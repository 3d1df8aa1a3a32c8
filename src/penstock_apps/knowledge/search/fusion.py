"""One ranking out of several whose scores cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock_apps.knowledge.search.hit import Hit

# How little a first place counts more than a second; as in search_v1.sql.
RANK = 10


def fuse(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """The best hits of groups that have no chunk in common: first places first."""
    if len(rankings) == 1:
        return list(rankings[0][:k])
    hits = [
        replace(hit, score=1 / (RANK + place))
        for ranking in rankings
        for place, hit in enumerate(ranking, start=1)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk))[:k]
