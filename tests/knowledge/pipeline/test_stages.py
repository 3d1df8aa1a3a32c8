"""Whatever stage an attempt breaks off after, the next one goes on and pays for nothing again."""

from functools import wraps
from typing import Any

import pytest

from penstock_apps.knowledge.ingest.document_job import DocumentJob
from penstock_apps.knowledge.ingest.drafts import DraftJob
from penstock_apps.knowledge.ingest.embed_calls import EmbedRound
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from tests.knowledge.fixtures.models import Models
from tests.knowledge.scene import Scene

TEXTS = {"a.txt": "A weir holds water back.", "b.txt": "A gate lets it go."}
STAGES = [
    (DocumentJob, "_read"),
    (DraftJob, "_draft"),
    (DraftJob, "_write"),
    (DraftJob, "_wait_until_ready"),
    (DocumentJob, "_publish"),
    (EmbedRound, "_find_missing"),
    (EmbedRound, "_embed"),
    (EmbedRound, "_keep"),
]


@pytest.mark.parametrize(("where", "stage"), STAGES, ids=[stage for _, stage in STAGES])
async def test_an_attempt_that_breaks_off_after_a_stage_is_made_up_for(
    scene: Scene,
    library: Library,
    recipe: Recipe,
    models: Models,
    monkeypatch: pytest.MonkeyPatch,
    where: type[Any],
    stage: str,
) -> None:
    base = await library.make_base("handbook", recipe)
    await scene.add(library, TEXTS, base=base)
    whole = getattr(where, stage)
    left = [ConnectionError(f"after {stage}")]

    @wraps(whole)  # A step reads its result as what is written there.
    async def breaks_off(*given: Any, **named: Any) -> Any:
        done = await whole(*given, **named)
        if left:
            raise left.pop()
        return done

    monkeypatch.setattr(where, stage, breaks_off)
    await scene.drain(scheduled=True)
    assert not left
    assert (await library.progress()).completed == 2
    assert sorted(models.texts) == sorted(TEXTS.values())
    assert await scene.value("SELECT count(*) FROM k.draft") == 0


async def test_jobs_that_are_delivered_twice_change_nothing(
    scene: Scene, library: Library, recipe: Recipe, models: Models
) -> None:
    base = await library.make_base("handbook", recipe)
    await scene.add(library, TEXTS, base=base)
    await scene.drain(twice=True)
    assert (await library.progress()).completed == 2
    assert sorted(models.texts) == sorted(TEXTS.values())
