"""Jobs without anything to set up: Postgres is started in ./.penstock.

Run it with `python examples/quickstart.py`.
"""

import asyncio

from penstock import Penstock

app = Penstock()


@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}"


async def main() -> None:
    async with app, app.worker():
        job = await app.enqueue(greet, "Ada")
        print(await app.wait(job, timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
