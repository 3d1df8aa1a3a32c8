"""Jobs that crash, eat all memory or never end cost one child process each, and nobody else.

A parser in C is played by `ctypes`, `os.abort` and an endless sleep. The worker and its other jobs
do not notice; each job says what killed it, and after two such deaths it is given up as poison.

Run it with `python examples/isolation.py`.
"""

import asyncio
import ctypes
import os
import time

from penstock import Fixed, NotRetryable, Penstock, Process

app = Penstock()


@app.task(isolate=Process(memory="256MB", time=60, deaths=2), retry=Fixed(0), queue="parsing")
def parse(document: str) -> int:
    match document:
        case "null.pdf":
            ctypes.string_at(0)
        case "corrupt.doc":
            os.abort()
        case "bomb.zip":
            return len([b"x" * 2**20 for _ in range(2**20)])
        case "rude.xls":
            os._exit(3)
        case "empty.txt":
            raise NotRetryable("nothing is in it")
    return len(document)


@app.task(isolate=Process(memory="256MB", time=1, deaths=2), retry=Fixed(0), queue="parsing")
def parse_xml(document: str) -> int:
    time.sleep(10**6)
    return len(document)


@app.task
async def answer(question: str) -> str:
    return f"answered: {question}"


DOCUMENTS = [
    *("letter.txt", "null.pdf", "corrupt.doc", "bomb.zip", "endless.xml", "rude.xls"),
    *("empty.txt", "novel.txt"),
]


async def main() -> None:
    async with app:
        jobs = {
            name: await app.enqueue(parse_xml if name.endswith(".xml") else parse, name)
            for name in DOCUMENTS
        }
        other = await app.enqueue(answer, "does it hurt?")
        await app.worker({"parsing": 4, "default": 10}, children=4).drain()

        for name, job in jobs.items():
            told = await app.get(job)
            why = told.last_error.type if told.last_error else f"{told.result} characters"
            print(f"{name:<12} {told.state:<10} {told.reason or '':<10} {why}")
        print(await app.wait(other))


if __name__ == "__main__":
    asyncio.run(main())
