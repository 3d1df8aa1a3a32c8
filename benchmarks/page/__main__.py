"""Fills docs/benchmarks.md and draws its pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.page import (
    before_after,
    bench,
    fair,
    fairness,
    isolated,
    knowledge,
    knowledge_search,
    micro_batching,
    peers,
    plot_bench,
    plot_fairness,
    plot_peers,
)
from benchmarks.page.markdown import fill
from benchmarks.page.results import DOCS, read, runs

compared, turns, simulated = read("peers"), read("fair"), read("fairness")
BLOCKS: dict[str, Callable[[], str]] = {
    "setting": bench.setting,
    "rates": bench.rates,
    "limits": bench.limits,
    "fair": partial(fair.drains, turns),
    "fair_ratios": partial(fair.ratios, turns),
    "before_after": partial(before_after.rates, read("before-after")),
    "fairness": partial(fairness.waits, simulated),
    "isolated": partial(isolated.drains, read("isolated")),
    "knowledge": partial(knowledge.documents, read("knowledge")),
    "knowledge_search": partial(knowledge_search.search, read("knowledge-search")),
    "micro_batching": partial(micro_batching.calls, read("micro-batching")),
    "peers": partial(peers.rates, compared),
    "losses": partial(peers.losses, compared),
    "settings": partial(peers.settings, compared),
    "promises": partial(peers.promises, compared),
}

page = DOCS / "benchmarks.md"
page.write_text(fill(page.read_text(), BLOCKS))
plot_bench.draw(runs()[0])
plot_peers.draw(compared)
plot_fairness.draw(simulated)
