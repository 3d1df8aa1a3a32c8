"""Tags and metadata are of the documents that came in with them, and of no others."""

from typing import Any

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.search import Filters, Query
from penstock_apps.knowledge.store.documents import Labels
from tests.knowledge.scene import Scene

CATS = "Cats sleep through most of the day, and hunt at dawn."
DOGS = "Dogs sleep at night, and hunt by day."
LAW = Labels(("law",), {"year": 2024})


async def found(library: Library, **filters: Any) -> set[str]:
    hits = await library.search(Query("who hunts?", filters=Filters(**filters)))
    return {each.path for each in hits}


async def labels(scene: Scene) -> dict[str, list[str]]:
    rows = await scene.rows("SELECT path, tags FROM k.document ORDER BY path")
    return {each["path"]: each["tags"] for each in rows}


async def test_labels_are_of_the_documents_they_came_with(scene: Scene, library: Library) -> None:
    first = await scene.bring(library, {"a.md": CATS})
    await scene.bring(library, {"b.md": DOGS}, labels=LAW)
    assert await found(library, tags=("law",)) == {"b.md"}
    assert await found(library, metadata={"year": 2024}) == {"b.md"}
    assert await found(library, tags=("law",), sources=(first.source,)) == {"b.md"}
    assert await labels(scene) == {"a.md": [], "b.md": ["law"]}

    await scene.bring(library, {"c.md": f"{CATS} So do owls."})
    assert await found(library, tags=("law",)) == {"b.md"}
    assert await found(library) == {"a.md", "b.md", "c.md"}


async def test_labels_given_with_the_id_of_a_source_are_put_on(
    scene: Scene, library: Library
) -> None:
    first = await scene.bring(library, {"a.md": CATS})
    await scene.bring(library, {"b.md": DOGS}, source=first.source, labels=LAW)
    assert await found(library, tags=("law",)) == {"b.md"}


async def test_a_document_has_the_labels_it_was_given_last(scene: Scene, library: Library) -> None:
    await scene.bring(library, {"a.md": CATS, "b.md": DOGS}, labels=LAW)

    other = await scene.bring(library, {"a.md": CATS}, labels=Labels(("animals", "night")))
    assert (other.total, await found(library, tags=("law",))) == (1, {"b.md"})
    assert await found(library, metadata={"year": 2024}) == {"a.md", "b.md"}

    dated = await scene.bring(library, {"a.md": CATS}, labels=Labels(metadata={"year": 2025}))
    assert (dated.total, await found(library, metadata={"year": 2025})) == (1, {"a.md"})
    assert await found(library, tags=("night",)) == {"a.md"}

    same = await scene.bring(library, {"a.md": CATS}, labels=Labels(("night", "animals")))
    assert (same.total, same.unchanged) == (0, 1)


async def test_who_gives_no_labels_leaves_those_that_are_there(
    scene: Scene, library: Library
) -> None:
    await scene.bring(library, {"a.md": CATS, "b.md": DOGS}, labels=LAW)
    again = await scene.bring(library, {"a.md": CATS, "b.md": f"{DOGS} So do owls."})
    assert (again.total, again.unchanged) == (1, 1)
    assert await found(library, tags=("law",), metadata={"year": 2024}) == {"a.md", "b.md"}
    assert await labels(scene) == {"a.md": ["law"], "b.md": ["law"]}
