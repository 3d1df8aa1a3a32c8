"""The app that the files beside run; put your own in its place."""

from penstock import Penstock

app = Penstock()


@app.task
async def greet(name: str) -> str:
    """A job: `penstock enqueue shop.greet '{"name": "Ada"}'`."""
    return f"Hello, {name}"
