"""Without a database of one's own: an embedded one, from the first enqueue to the result."""

from pathlib import Path

import pytest

from penstock import Penstock


async def test_an_app_works_out_of_the_box(tmp_path: Path) -> None:
    app = Penstock(data_dir=tmp_path / "data")

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    async with app, app.worker():
        job = await app.enqueue(greet, "Ada")
        assert await app.wait(job, timeout=20) == "Hello, Ada"


def test_its_address_is_known_once_the_app_is_open(tmp_path: Path) -> None:
    app = Penstock(data_dir=tmp_path / "data")
    with pytest.raises(RuntimeError, match=r"await app\.open\(\), or app\.sync\.open\(\)"):
        _ = app.url
    with app.sync:
        assert app.url.startswith("postgresql://")
