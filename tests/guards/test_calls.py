"""What each route asks of the database, tells workers and notes, is what was kept."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pytest

from penstock import Penstock
from penstock.bounded_connection import BoundedConnection
from penstock.service import Service
from tests.fixtures.database import Database, connected
from tests.fixtures.service import OpenDoor, asked
from tests.guards.kept import compare
from tests.guards.renames import calls_of_today
from tests.service.access.calls import CALLS, Things, make_things, url_of

# Of new jobs an app tells now and then, for all that came meanwhile: that is no call's.
CHANNELS = ("signal", "settings", "schedules", "grants", "waits", "buckets")
COMMENT = re.compile(r"--.*")
# A call that is derived from a function's signature names its parameters; it did not before.
CALL = re.compile(r'SELECT ([\w, ]+ FROM )?"penstock"\.\w+\(p_\w+ => ')
NAMED = re.compile(r"\bp_\w+ => (?=\$)")
SHOWN = 90
# What a connection says of itself, or what a transaction needs.
NOISE = re.compile(
    r"^(BEGIN|COMMIT|ROLLBACK|SET|RESET|LISTEN|UNLISTEN|SELECT set_config)\b"
    r'|^SELECT "penstock".notify_'
)
# They are answered from what is looked at in the background, at any time.
WATCHED = {("GET", "/overview"), ("GET", "/health"), ("GET", "readyz"), ("GET", "metrics")}


class Asked:
    """The statements of all connections that are opened from now on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._statements: list[str] = []
        begin = BoundedConnection.__init__

        def begin_told(connection: asyncpg.Connection, *args: object) -> None:
            begin(connection, *args)
            connection.add_query_logger(self._add)

        patch.setattr(BoundedConnection, "__init__", begin_told)

    def _add(self, record: asyncpg.connection.LoggedQuery) -> None:
        text = " ".join(COMMENT.sub("", record.query).split())
        self._statements.append(NAMED.sub("", text) if CALL.match(text) else text)

    def take(self) -> list[str]:
        """What was asked since the last time."""
        taken, self._statements = self._statements, []
        return [one[:SHOWN] for one in taken if not NOISE.match(one)]


class Told:
    """The channels that were told something."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._channels: list[str] = []

    def add(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self._channels.append(channel)

    async def take(self) -> list[str]:
        """Since the last time: Postgres delivers before its answer to a later statement."""
        await self._connection.fetchval("SELECT 1")
        taken, self._channels = self._channels, []
        return taken


@asynccontextmanager
async def hearing(database: Database) -> AsyncIterator[Told]:
    async with connected(database.direct_url) as connection:
        told = Told(connection)
        for channel in CHANNELS:
            await connection.add_listener(f"penstock.{channel}", told.add)
        yield told
        await connection.reset()


async def things_of(app: Penstock) -> Things:
    @app.task(name="work")
    async def work(text: str) -> None: ...

    @app.task(name="fail", max_attempts=1)
    async def fail(text: str) -> None:
        raise ValueError(text)

    things = await make_things(app, "acme")
    things.names["key"] = (await app.create_key("ci", scopes=["read"])).key.id
    things.names["person"] = "grace"
    await app.add_person("grace", role="viewer", password_hash="x")
    return things


async def test_what_each_route_asks_tells_and_notes_is_as_it_was_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Asked(monkeypatch)
    lines: list[str] = []
    app = Penstock(database.url)
    async with app, hearing(database) as told:
        things = await things_of(app)
        async with Service(app, door=OpenDoor()) as service, asked(service.asgi) as client:
            for (verb, path), call in CALLS.items():
                if (verb, path) in WATCHED or path.startswith(("/live", "/log")):
                    continue
                noted = await last_noted(app)
                await told.take()
                asking.take()
                answer = await client.request(
                    verb,
                    f"http://localhost{url_of(path, call, things)}",
                    params=things.fill(call.query),
                    json=things.fill(call.body),
                )
                lines.append(f"{verb} {path}: {answer.status_code}")
                lines += [f"    {one}" for one in asking.take()]
                lines += counted("tells", await told.take())
                lines += counted("notes", await notes(app, noted))
    compare("calls.txt", "\n".join(lines) + "\n", calls_of_today)


async def last_noted(app: Penstock) -> int:
    return int((await app.audit(limit=1)).entries[0].id)


async def notes(app: Penstock, after: int) -> list[str]:
    entries = (await app.audit(limit=20)).entries
    return [f"{one.action} by {one.actor}" for one in entries if int(one.id) > after]


def counted(what: str, names: Sequence[str]) -> list[str]:
    return [f"    {what} {name} ({names.count(name)})" for name in sorted(set(names))]
