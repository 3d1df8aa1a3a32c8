"""The steps of a workflow as they are drawn: fans as one, each below what it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from re import sub

from penstock.groups.workflows import WorkflowStep


@dataclass(slots=True)
class Fan:
    """Steps of one task that wait for the same ones and are waited for by the same ones.

    `depth` is how many stages are before it; `after` are the fans that it waits for.
    """

    steps: list[WorkflowStep]
    after: list[Fan] = field(default_factory=list)
    depth: int = 0

    @property
    def name(self) -> str:
        return shared([step.name for step in self.steps]) or self.steps[0].task

    @property
    def label(self) -> str:
        return self.name if len(self.steps) == 1 else f"{self.name} ×{len(self.steps):,}"

    @property
    def states(self) -> Counter[str]:
        return Counter(step.state for step in self.steps)


def shared(names: Sequence[str]) -> str:
    """The words with which all names begin, without the numbers that tell them apart."""
    if len(names) == 1:
        return names[0]
    low, high = min(names), max(names)
    pairs = zip(low, high, strict=False)
    start = low[: next((at for at, (a, b) in enumerate(pairs) if a != b), len(low))]
    if any(name[len(start) :][:1].isalpha() for name in names):
        start = sub(r"\w*$", "", start)  # only whole words are shared
    return start.rstrip(" -_:.#/0123456789")


def fans_of(steps: Sequence[WorkflowStep]) -> list[Fan]:
    """The fans of a workflow, each after those that it waits for."""
    children: dict[str, list[str]] = {step.id: [] for step in steps}
    for step in steps:
        for parent in step.parents:
            if parent in children:
                children[parent].append(step.id)
    found: dict[tuple[object, ...], Fan] = {}
    fan_of: dict[str, Fan] = {}
    for step in steps:
        key = (step.task, step.parents, tuple(children[step.id]))
        fan = found.setdefault(key, Fan([]))
        fan.steps.append(step)
        fan_of[step.id] = fan
    return _layered(list(found.values()), fan_of)


def _layered(fans: list[Fan], fan_of: dict[str, Fan]) -> list[Fan]:
    below: dict[int, list[Fan]] = {id(fan): [] for fan in fans}
    waiting: dict[int, int] = {}
    for fan in fans:
        above = {id(fan_of[p]): fan_of[p] for p in fan.steps[0].parents if p in fan_of}
        fan.after = list(above.values())
        waiting[id(fan)] = len(above)
        for each in fan.after:
            below[id(each)].append(fan)
    order = [fan for fan in fans if not waiting[id(fan)]]
    for fan in order:
        for child in below[id(fan)]:
            child.depth = max(child.depth, fan.depth + 1)
            waiting[id(child)] -= 1
            if not waiting[id(child)]:
                order.append(child)
    return sorted(order, key=lambda fan: fan.depth)
