"""CocoIndex on a folder of text files, in an environment of its own: prints one JSON document.

    python cocoindex_runner.py FOLDER DATABASE_URL STATE_FOLDER CHUNK_BYTES

Cut by its splitter, embedded by wordllama, stored in Postgres without an index.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import cocoindex as coco
import numpy as np
import wordllama
from cocoindex.connectors import localfs, postgres
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.chunk import Chunk
from cocoindex.resources.file import FileLike, PatternFilePathMatcher
from cocoindex.resources.id import IdGenerator
from cocoindex.resources.schema import VectorSchema
from numpy.typing import NDArray

FOLDER, URL, STATE, SIZE = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
TEXTS = ["**/*.txt"]
DATABASE = coco.ContextKey[asyncpg.Pool]("database")
MODEL = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
splitter = RecursiveSplitter()


@dataclass
class Row:
    id: int
    path: str
    text: str
    embedding: Annotated[NDArray[np.float32], VectorSchema(np.dtype(np.float32), 256)]


@coco.lifespan
async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    builder.settings.db_path = STATE
    async with asyncpg.create_pool(URL) as pool:
        builder.provide(DATABASE, pool)
        yield


@coco.fn.as_async(batching=True, max_batch_size=256)
def embedded(texts: list[str]) -> list[NDArray[np.float32]]:
    return list(MODEL.embed(texts, norm=True))


@coco.fn
async def store(chunk: Chunk, path: str, ids: IdGenerator, table: Any) -> None:
    number, vector = await ids.next_id(chunk.text), await embedded(chunk.text)
    table.declare_row(row=Row(number, path, chunk.text, vector))


@coco.fn(memo=True)
async def bring_in(file: FileLike[Path], table: Any) -> None:
    chunks = splitter.split(await file.read_text(), chunk_size=SIZE, language="markdown")
    await coco.map(store, chunks, str(file.file_path.path), IdGenerator(), table)


@coco.fn
async def everything() -> None:
    schema = await postgres.TableSchema.from_class(Row, primary_key=["id"])
    table = await postgres.mount_table_target(DATABASE, "chunk", schema)
    files = localfs.walk_dir(
        FOLDER, recursive=True, path_matcher=PatternFilePathMatcher(included_patterns=TEXTS)
    )
    await coco.mount_each(bring_in, files.items(), table)


async def main() -> dict[str, Any]:
    app = coco.App(coco.AppConfig(name="bench"), everything)
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        await app.update()
        seconds.append(time.perf_counter() - began)
    connection = await asyncpg.connect(URL)
    chunks, size = await connection.fetchrow(
        "SELECT count(*), avg(octet_length(text))::float8 FROM chunk"
    )
    await connection.close()
    return {
        "version": coco.__version__,
        "chunks": chunks,
        "chunk_bytes": size,
        "seconds": seconds[0],
        "again_seconds": seconds[1],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
