"""What measurements call in Penstock: a module for each scene, each with a `PEER`.

`base` has the names of the commit that everything is compared with, and stays as it is. When a
public name changes, copy the modules that use it to `present`, and write the new name there: the
driver takes a scene from `present` if it is there, and from `base` if not. The files of an older
commit are driven by the modules in that commit, if it has any.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from benchmarks.peers.peer import Peer


def peer_of(adapter: str, scene: str) -> Peer:
    """The scene with the names of the adapter, or else of the base."""
    place = f"{__name__}.{adapter}.{scene}"
    if find_spec(place) is None:
        place = f"{__name__}.base.{scene}"
    peer: Peer = importlib.import_module(place).PEER
    return peer
