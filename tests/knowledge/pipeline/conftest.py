"""A base whose vectors are made by a model API, which stands here."""

from collections.abc import AsyncIterator

import pytest

from penstock_apps.knowledge.chunk import Chunking
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.store.bases import Recipe
from tests.knowledge.fixtures.models import Models


@pytest.fixture
async def models() -> AsyncIterator[Models]:
    async with Models() as models:
        yield models


@pytest.fixture
def recipe(models: Models) -> Recipe:
    """Small pieces, and vectors of that API."""
    return Recipe(Embedding("openai", "words", 64, base_url=models.base_url), Chunking(32))
