"""Take documents in, change one, and ask.

    python examples/knowledge.py

It needs pgvector in the database; the embedded one has it.
"""

import asyncio
import tempfile
from hashlib import sha256
from pathlib import Path

from penstock import Penstock
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.ingest.intake import Incoming
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.sources import NewSource

KEYS = """
# Keys

## Rotating them

Make a second key and let every service use it. When nobody has asked with the first one for a
day, revoke it. The audit shows who still does.

## Losing one

Tell the person on call at once. A lost key is revoked within the hour, whatever it breaks.
"""
TRAVEL = """
# Travel

Book trains four weeks ahead. The cheapest seat that still lets you work is the right one.
"""

app = Penstock()
knowledge = Knowledge(app)


async def main() -> None:
    await app.migrate()
    async with app, knowledge.opened() as shop:
        library = knowledge.of(shop, "acme")
        with tempfile.TemporaryDirectory() as folder:
            await take_in(library, Path(folder), {"keys.md": KEYS, "travel.md": TRAVEL})
            await ask(library, "what happens to a lost key?")
            changed = TRAVEL.replace("four weeks", "five weeks")
            await take_in(library, Path(folder), {"keys.md": KEYS, "travel.md": changed})
            await ask(library, "how early are trains booked?")


async def take_in(library: Library, folder: Path, texts: dict[str, str]) -> None:
    base = await library.make_base("handbook")
    async with library.intake(base, NewSource("files", "handbook", key="handbook")) as intake:
        await intake.add([incoming(folder / name, text) for name, text in texts.items()])
    async with app.worker(knowledge.queues(children=1), children=1):
        await app.wait_batch(intake.batch.id, timeout=60)
    receipt = intake.receipt
    print(f"{receipt.total} went in, {receipt.unchanged} unchanged")
    for each in receipt.documents:
        document = await library.document(each.id)
        print(f"  {document.path}: {document.chunks} chunks, {document.embedded} new")


def incoming(file: Path, text: str) -> Incoming:
    file.write_text(text)
    content = file.read_bytes()
    return Incoming(file.name, file, len(content), sha256(content).digest())


async def ask(library: Library, question: str) -> None:
    [hit] = await library.search(Query(question, k=1))
    print(f"{question} {hit.path}, {hit.heading}")


if __name__ == "__main__":
    asyncio.run(main())
