"""Without a database of one's own: an embedded one, from the first enqueue to the result."""

from pathlib import Path

import pytest

from penstock import Penstock


async def test_app_without_a_url_starts_an_embedded_database(tmp_path: Path) -> None:
    app = Penstock(data_dir=tmp_path / "data")

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    with pytest.raises(RuntimeError, match=r"await app\.open\(\), or app\.sync\.open\(\)"):
        _ = app.url
    async with app, app.worker():
        assert app.url.startswith("postgresql://")
        job = await app.enqueue(greet, "Ada")
        assert await app.wait(job, timeout=20) == "Hello, Ada"
