"""What is measured of a fair queue and of limits, and what each is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.bench.plan import FEW_TENANTS
from penstock.bench.setup import LOOSE, TIGHT, Setup


@dataclass(frozen=True, slots=True)
class Scene:
    """One drain: the queue, and what is around it."""

    what: str
    setup: Setup
    against: tuple[str, ...] = ("plain",)
    processes: int = 1
    held: bool = False  # Another session holds a snapshot.
    emptied: int = 0  # So many tenants had jobs under that snapshot, and have none now.


def scenes(tenants: int) -> dict[str, Scene]:
    """Those of one round, by the names that the document has for them."""
    few, many = f"{FEW_TENANTS} tenants", f"{tenants:,} tenants"
    limited = Setup(tenants, LOOSE)
    both = {
        "plain": Scene("plain queue", Setup(), ()),
        "one": Scene("fair queue, 1 tenant", Setup(1)),
        "few": Scene(f"fair queue, {few}", Setup(FEW_TENANTS)),
        "many": Scene(f"fair queue, {many}", Setup(tenants), ("plain", "one")),
        "few_limited": Scene(f"fair and limited, {few}", Setup(FEW_TENANTS, LOOSE)),
        "many_limited": Scene(f"fair and limited, {many}", limited),
    }
    gone = tenants - FEW_TENANTS
    return {
        **both,
        **{f"{name}_held": _held(scene) for name, scene in both.items()},
        "emptied_one": Scene(
            "fair queue, 1 tenant, others' jobs done", Setup(1), (), held=True, emptied=1
        ),
        "emptied": Scene(
            f"fair queue, {gone:,} of {many} done",
            Setup(FEW_TENANTS), ("emptied_one",), held=True, emptied=gone,
        ),
        "bound": Scene("plain queue, limited to the slots", Setup(limits=TIGHT)),
        "plain_two": Scene("plain queue, 2 processes", Setup(), (), 2),
        "many_limited_two": Scene(
            f"fair and limited, {many}, 2 processes", limited, ("plain_two",), 2
        ),
    }  # fmt: skip


def _held(scene: Scene) -> Scene:
    against = tuple(f"{name}_held" for name in scene.against)
    return Scene(f"{scene.what}, held", scene.setup, against, held=True)
