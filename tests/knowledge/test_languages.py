"""The language of a base."""

import pytest

from penstock import ConfigError
from penstock_apps.knowledge.library import Library


async def test_a_base_has_a_language_that_postgres_knows(library: Library) -> None:
    with pytest.raises(ConfigError, match=r"klingon.*english.*simple"):
        await library.make_base("songs", language="klingon")
    assert await library.bases() == []
    assert (await library.make_base("songs", language="simple")).language == "simple"
