"""Without a database of one's own: an embedded one, from the first enqueue to the result."""

from pathlib import Path

from penstock import Penstock


async def test_an_app_works_out_of_the_box(tmp_path: Path) -> None:
    app = Penstock(data_dir=tmp_path / "data")

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    async with app, app.worker():
        job = await app.enqueue(greet, "Ada")
        assert await app.wait(job, timeout=20) == "Hello, Ada"
