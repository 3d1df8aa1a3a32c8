"""Dead letters: see what has failed, mend the cause, and let it run again, a few at a time.

`python examples/dead_letters.py`
"""

import asyncio

from penstock import Penstock

app = Penstock()
mail_server = {"is_up": False}


@app.task(max_attempts=1)
async def send_invoice(order: int) -> str:
    if order % 5 == 0:
        raise LookupError(f"there is no order {order}")
    if not mail_server["is_up"]:
        raise ConnectionError("no route to the mail server")
    return f"invoice {order} sent"


async def main() -> None:
    async with app:
        await app.enqueue_many(send_invoice.prepare(order) for order in range(1, 11))
        await app.worker().drain()
        for group in (await app.dead_summary()).groups:
            print(f"{group.number} × {group.error}: {group.message}")

        mail_server["is_up"] = True
        # What failed for another reason stays where it is. Nobody has to wait here for the rest.
        done = await app.redrive(error="ConnectionError", rate="50/s")
        print(f"{done.number} came back")
        async with app.worker():
            sent = [await app.wait(str(order), timeout=30) for order in (1, 9)]
        print(*sent, sep="\n")

        purged = await app.purge(error="LookupError")
        print(f"{purged.number} were let go")


if __name__ == "__main__":
    asyncio.run(main())
