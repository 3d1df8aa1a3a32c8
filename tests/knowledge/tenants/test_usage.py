"""What a tenant has, as it is counted."""

import asyncio

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.sources import NewSource
from tests.knowledge.scene import Scene


async def test_the_same_paths_taken_in_at_once_count_once(scene: Scene, library: Library) -> None:
    base = await library.make_base("handbook")
    source = NewSource("files", "folder", key="folder")
    await scene.add(library, {}, base=base, source=source)
    given = [{f"{n}.txt": f"{n} {'x' * who}" for n in range(40)} for who in range(6)]
    await asyncio.gather(*(scene.add(library, each, base=base, source=source) for each in given))

    [real] = await scene.rows(
        "SELECT count(*) AS documents, sum(bytes)::int AS bytes FROM k.document"
    )
    about = await library.get_tenant()
    assert {"documents": about.documents, "bytes": about.bytes} == real
    assert about.documents == 40
