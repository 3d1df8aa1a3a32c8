"""A web application with its worker inside: FastAPI, SQLAlchemy and Penstock in one process.

Run it with `python examples/fastapi_shop.py`, then in another terminal:

    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"item": "kettle"}'
    curl localhost:8000/jobs/1
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from penstock import Context, Penstock
from penstock.errors import JobNotFound

jobs = Penstock()


@jobs.task(queue="orders")
async def pack(ctx: Context, order: int, item: str) -> str:
    """What takes too long for a request."""
    for step in range(5):
        ctx.progress(step, 5, f"wrapping the {item}")
        await asyncio.sleep(0.1)
    return f"order {order} is packed"


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    """Open before the first request, closed after the last: the worker finishes what it runs."""
    async with jobs, jobs.worker(queues={"orders": 20}):
        engine = create_async_engine(jobs.url.replace("postgresql://", "postgresql+asyncpg://", 1))
        async with engine.begin() as connection:
            await connection.execute(
                text("CREATE TABLE IF NOT EXISTS shop_order (id serial PRIMARY KEY, item text)")
            )
        web.state.sessions = async_sessionmaker(engine)
        yield
        await engine.dispose()


web = FastAPI(lifespan=lifespan)


class Order(BaseModel):
    item: str


@web.post("/orders", status_code=202)
async def order(given: Order, request: Request) -> dict[str, str]:
    """The order and its job are stored together, or, if this raises, not at all.

    The transaction ends before the answer goes out: who has the job's id can ask for it.
    """
    insert = text("INSERT INTO shop_order (item) VALUES (:item) RETURNING id")
    async with request.app.state.sessions.begin() as session:
        number = (await session.execute(insert, {"item": given.item})).scalar_one()
        job = await jobs.inside(session).enqueue(pack, number, given.item)
        if given.item == "dragon":
            raise HTTPException(409, "We have no dragons.")
    return {"job": job.id}


@web.get("/jobs/{job}")
async def job(job: str) -> dict[str, object]:
    states = await jobs.states([job])
    if job not in states:
        raise HTTPException(404, f"There is no job {job}.")
    status = states[job]
    return {"state": status.state, "done": status.done, "message": status.message}


@web.get("/jobs/{job}/result")
def result(job: str) -> object:
    """An ordinary function runs in a thread: there the blocking client does the same."""
    try:
        return jobs.sync.wait(job, timeout=30)
    except JobNotFound as error:
        raise HTTPException(404, str(error)) from error


if __name__ == "__main__":
    uvicorn.run(web, port=int(os.environ.get("PORT", "8000")))
