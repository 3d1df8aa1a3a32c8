"""Short ways to what most tests of knowledge begin with: files, a source, a worker, its end."""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from penstock import Penstock, Worker
from penstock.testing import drain, for_tests
from penstock_apps.knowledge.ingest.intake import Incoming, Receipt
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import UNLABELLED, Labels
from penstock_apps.knowledge.store.schema import schema_of
from penstock_apps.knowledge.store.sources import NewSource
from penstock_apps.knowledge.tasks import QUEUES
from tests.fixtures.until import until
from tests.fixtures.worker import GROUPS, UPKEEP

# Jobs that wait for a child are not past their timeout.
SETTINGS = {**GROUPS, "upkeep": replace(UPKEEP, overtime_grace=60)}


def worker_of(app: Penstock, *, children: int = 1, slots: int = 4, **settings: Any) -> Worker:
    """A worker for the queues of knowledge, whose every interval is short."""
    queues = dict.fromkeys(QUEUES, slots)
    return app.worker(queues, children=children, **{**SETTINGS, **settings})


class Scene:
    """One app, and folders to take files from."""

    def __init__(self, knowledge: Knowledge, runtime: KnowledgeRuntime, folder: Path) -> None:
        self.knowledge = knowledge
        self.runtime = runtime
        self.app = runtime.app
        for_tests(self.app)
        self._folder = folder
        self._schema = schema_of(runtime.app.database.schema)

    def files(self, contents: Mapping[str, str | bytes]) -> list[Incoming]:
        """Files at hand, by their paths."""
        self._folder.mkdir(exist_ok=True)
        incoming = []
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            digest = sha256(data).digest()
            file = self._folder / digest.hex()
            file.write_bytes(data)
            incoming.append(Incoming(path, file, len(data), digest))
        return incoming

    async def add(
        self,
        library: Library,
        contents: Mapping[str, str | bytes],
        *,
        base: str | Base = "handbook",
        source: NewSource | int | None = None,
        labels: Labels = UNLABELLED,
    ) -> Receipt:
        """Take files into a source of a base, which is made if it is not there."""
        if isinstance(base, str):
            base = await library.make_base(base)
        if source is None:
            source = NewSource("files", "folder", key="folder")
        async with library.intake(base, source, labels) as intake:
            await intake.add(self.files(contents))
        return intake.receipt

    async def ended(self, library: Library, receipt: Receipt) -> None:
        """Wait until all of a batch have ended, and who hangs on that was told."""

        async def over() -> bool:
            return (await library.source(receipt.source)).ended_at is not None

        await until(over, 90, what="the end of a source")

    async def bring(
        self, library: Library, contents: Mapping[str, str | bytes], **given: Any
    ) -> Receipt:
        """Take files in, and bring all of them in."""
        receipt = await self.add(library, contents, **given)
        await self.drain()
        return receipt

    async def drain(self, **given: Any) -> None:
        """Run all jobs that are due, in this process: a child takes seconds to start."""
        await drain(self.app, raises=False, slots=4, **given)

    async def miss_the_killed(self) -> None:
        """The leases of those that were killed end now, not in a minute."""
        # So long ago that a heartbeat on its way does not renew it.
        await self.rows(
            "UPDATE penstock.lease SET expires_at = clock_timestamp() - interval '1 hour'"
        )

    async def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """What the owner of the tables sees; `k.` stands for their schema."""
        pool = await self.app.pool()
        found = await pool.fetch(re.sub(r"\bk\.", f'"{self._schema}".', sql), *values)
        return [dict(row) for row in found]

    async def value(self, sql: str, *values: Any) -> Any:
        """The one value of the one row."""
        [row] = await self.rows(sql, *values)
        [value] = row.values()
        return value

    async def left(self, tenant: str) -> dict[str, int]:
        """How many rows a tenant has, by table; those without any are left out."""
        tables = await self.rows(
            "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname <> 'migration'",
            self._schema,
        )
        counts = {
            name: await self.value(f'SELECT count(*) FROM k."{name}" WHERE tenant = $1', tenant)
            for name in sorted(row["relname"] for row in tables)
        }
        return {name: number for name, number in counts.items() if number}
