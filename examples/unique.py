"""One job of a kind at a time: the next one is skipped, replaces the first, or supersedes it.

Run it with `python examples/unique.py`.
"""

import asyncio

from penstock import Penstock, Unique

app = Penstock()
began, stopped = asyncio.Event(), asyncio.Event()


@app.task(unique=True)
async def import_feed(feed: str) -> None: ...


@app.task(unique=Unique(args=["note"], on_conflict="replace"))
async def save(note: int, version: int) -> None:
    print(f"saved version {version} of note {note}")


@app.task(unique=Unique(key="index:{document}", on_conflict="supersede"))
async def index(document: int, text: str) -> str:
    if text == "old text":
        began.set()
        try:
            await asyncio.Event().wait()  # stands for work that takes long
        finally:
            stopped.set()
    return f"indexed {text}"


async def main() -> None:
    async with app:
        first = await app.enqueue(import_feed, "news")
        second = await app.enqueue(import_feed, "news")
        print(f"the second import is the first: {second.duplicate and second.id == first.id}")

        # Somebody types: it is saved once, a moment after the last key.
        for version in range(1, 21):
            note = await app.enqueue(save.options(delay=0.2), 1, version)

        async with app.worker():
            await app.wait(note, timeout=30)
            older = await app.enqueue(index, 7, "old text")
            await began.wait()
            newer = await app.enqueue(index, 7, "new text")
            await stopped.wait()
            print(f"the older one was {(await app.get(older)).reason}")
            print(await app.wait(newer, timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
