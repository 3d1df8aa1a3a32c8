"""One WebSocket for many subjects, and clients that do not read."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from penstock import Penstock, task
from penstock.service import frames
from penstock.service.live import hub as live_hub
from penstock.service.live import sockets, streams
from penstock.service.live.hub import Hub, Mailbox, Subject, Update
from tests.fixtures.live import Address, Heard, hear, listened_to
from tests.fixtures.until import until


@task
async def work(name: str = "") -> None: ...


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    app.include(work)


class Talker:
    """One end of a socket: what it says and what it hears."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, **wish: str) -> None:
        await self.connection.send(msgspec.json.encode(wish).decode())

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            heard: dict[str, Any] = msgspec.json.decode(await self.connection.recv())
        return heard

    async def hear_out(self) -> None:
        while True:
            await self.hear()


@asynccontextmanager
async def talker(
    server: Address, query: str = "", *, caller: str | None = "ada", origin: str | None = None
) -> AsyncIterator[Talker]:
    headers = {"x-caller": caller} if caller else {}
    page = None if origin is None else Origin(origin)
    async with connect(server.socket + query, additional_headers=headers, origin=page) as opened:
        yield Talker(opened)


async def refusal(server: Address, **options: Any) -> int:
    with pytest.raises(InvalidStatus) as refused:
        async with talker(server, **options):
            pass
    return refused.value.response.status_code


async def test_subjects_come_and_go_on_one_socket(app: Penstock) -> None:
    one, two = await app.enqueue(work, "1"), await app.enqueue(work, "2")
    async with listened_to(app) as server, talker(server) as client:
        await client.say(subscribe=f"job/{one.id}")
        assert (await client.hear())["state"]["state"] == "ready"
        await client.say(subscribe=f"job/{two.id}")
        seen = await client.hear()
        assert seen["subject"] == f"job/{two.id}"
        await client.say(unsubscribe=f"job/{two.id}")
        await client.say(subscribe="job/999")
        assert await client.hear() == {
            "subject": "job/999",
            "version": None,
            "final": True,
            "state": None,
        }
        await app.cancel_many([one.id, two.id])
        ended = await client.hear()
        assert (ended["subject"], ended["final"]) == (f"job/{one.id}", True)
        # Who says what it has seen hears what is new alone.
        await client.say(subscribe=f"job/{one.id}", version=ended["version"])
        await client.say(subscribe=f"job/{two.id}", version=seen["version"])
        assert (await client.hear())["subject"] == f"job/{two.id}"


async def test_what_makes_no_sense_is_refused_and_the_socket_stays(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MAX_SUBJECTS", 1)
    async with listened_to(app) as server, talker(server) as client:
        for text, status in (
            ("no JSON", 422),
            ('{"subscribe": 1}', 422),
            ('{"subscribe": "planet/mars"}', 422),
            ('{"sing": "aloud"}', 422),
            ('{"subscribe": "' + "x" * 5000 + '"}', 422),
        ):
            await client.connection.send(text)
            assert (await client.hear())["problem"]["status"] == status
        await client.say(subscribe="tenant/acme")
        assert (await client.hear())["state"]["name"] == "acme"
        await client.say(subscribe="user/ada")
        assert (await client.hear())["problem"]["status"] == 429


async def test_a_client_that_floods_its_socket_is_read_slowly(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MESSAGE_BURST", 5)
    monkeypatch.setattr(sockets, "MESSAGES_PER_S", 0.5)
    answers = 0
    async with (
        listened_to(app) as server,
        talker(server) as client,
        httpx.AsyncClient(verify=False) as http,
    ):

        async def count_answers() -> None:
            nonlocal answers
            while True:
                await client.connection.recv()
                answers += 1

        counting = asyncio.create_task(count_answers())
        for _ in range(500):
            await client.connection.send('{"subscribe": 1}')
        await until(lambda: answers >= 5)
        assert (await http.get(f"{server.url}/livez", timeout=30)).status_code == 200
        assert answers < 100
        # A polite close would wait until the server has read everything.
        client.connection.transport.abort()
        await asyncio.gather(counting, return_exceptions=True)


async def test_client_that_floods_its_socket_is_read_slowly(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pongs = 0
    answer = frames.BoundedWebSocket.handle_ping

    def count(self: frames.BoundedWebSocket) -> None:
        nonlocal pongs
        pongs += 1
        answer(self)

    monkeypatch.setattr(frames.BoundedWebSocket, "handle_ping", count)
    monkeypatch.setattr(frames, "BURST_BYTES", 3000)
    monkeypatch.setattr(frames, "BYTES_PER_S", 10)
    async with (
        listened_to(app) as server,
        talker(server) as client,
        talker(server) as other,
        httpx.AsyncClient(verify=False) as http,
    ):
        # The smallest frames there are, which no route ever sees.
        transport = client.connection.transport
        transport.write(b"\x89\x80\0\0\0\0" * 20_000)  # type: ignore[attr-defined]
        await until(lambda: pongs >= 400)
        assert (await http.get(f"{server.url}/livez", timeout=30)).status_code == 200
        await other.say(subscribe="tenant/acme")
        assert (await other.hear())["state"]["name"] == "acme"
        assert pongs < 2000
        transport.abort()  # type: ignore[attr-defined]


async def test_a_message_that_is_too_large_ends_the_socket(app: Penstock) -> None:
    async with listened_to(app) as server, talker(server) as client:
        await client.connection.send("x" * 100_000)
        with pytest.raises(ConnectionClosed) as closed:
            await client.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def test_a_message_of_bytes_ends_the_socket_with_a_code(app: Penstock) -> None:
    async with listened_to(app) as server, talker(server) as client:
        await client.say(subscribe="tenant/acme")
        assert (await client.hear())["state"]["name"] == "acme"
        await client.connection.send(b'{"subscribe": "tenant/acme"}')
        with pytest.raises(ConnectionClosed) as closed:
            await client.hear_out()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1003


@pytest.mark.parametrize(
    "parts",
    [[b"\xff\xfe"], [b'{"subscribe": "', b"\xc3", b"\x28", b'"}']],
    ids=["one frame", "fragments"],
)
async def test_text_that_is_not_utf8_ends_the_socket_and_fills_no_log(
    app: Penstock, caplog: pytest.LogCaptureFixture, parts: list[bytes]
) -> None:
    async with listened_to(app) as server:
        for _ in range(3):
            async with talker(server) as client:
                await client.connection.send(parts if parts[1:] else parts[0], text=True)
                with pytest.raises(ConnectionClosed) as closed:
                    await client.hear_out()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1007
    loud = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one.getMessage() for one in loud] == []


async def test_a_character_may_be_cut_between_two_fragments(app: Penstock) -> None:
    text = '{"subscribe": "tenant/akmé"}'.encode()
    async with listened_to(app) as server, talker(server) as client:
        await client.connection.send([text[:-3], text[-3:]], text=True)
        assert (await client.hear())["state"]["name"] == "akmé"


async def test_a_message_of_endless_fragments_ends_the_socket(app: Penstock) -> None:
    async with (
        listened_to(app) as server,
        talker(server) as client,
        talker(server) as other,
        httpx.AsyncClient(verify=False) as http,
    ):
        transport: Any = client.connection.transport
        # The beginning of a message, and then fragments of it without a byte.
        transport.write(b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 20_000)
        assert (await http.get(f"{server.url}/livez", timeout=30)).status_code == 200
        await other.say(subscribe="tenant/acme")
        assert (await other.hear())["state"]["name"] == "acme"
        async with asyncio.timeout(60):
            with pytest.raises(ConnectionClosed) as closed:
                await client.hear_out()
        transport.abort()
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009


async def test_a_message_of_some_fragments_is_one_message(app: Penstock) -> None:
    text = '{"subscribe": "tenant/acme"}'
    async with listened_to(app) as server, talker(server) as client:
        await client.connection.send(list(text))
        assert (await client.hear())["state"]["name"] == "acme"


async def test_socket_needs_a_caller_or_ticket_and_its_own_origin(app: Penstock) -> None:
    job = await app.enqueue(work)
    async with listened_to(app) as server, httpx.AsyncClient(timeout=30, verify=False) as http:
        assert await refusal(server, caller=None) == 401
        assert await refusal(server, origin="https://evil.example") == 403
        async with talker(server, origin=server.url):
            pass
        asked = {"subjects": [f"job/{job.id}"]}
        answer = await http.post(f"{server.live}/tickets", json=asked, headers={"x-caller": "ada"})
        query = f"?ticket={answer.json()['ticket']}"
        async with talker(server, query, caller=None, origin="https://shop.example") as client:
            await client.say(subscribe=f"job/{job.id}")
            assert (await client.hear())["state"]["id"] == job.id
            await client.say(subscribe="queue/default")
            assert (await client.hear())["problem"]["status"] == 403


async def test_a_page_opens_a_socket_with_the_login_of_its_person(app: Penstock) -> None:
    job = await app.enqueue(work)
    await app.add_person("ada", role="viewer", password_hash="none that fits")
    login = await app.open_login("ada", "127.0.0.1", lasts=60)
    cookie = {"cookie": f"penstock_login={login.secret}"}
    async with listened_to(app, door=None) as server:
        async with connect(
            server.socket, additional_headers=cookie, origin=Origin(server.url)
        ) as c:
            client = Talker(c)
            await client.say(subscribe=f"job/{job.id}")
            assert (await client.hear())["state"]["id"] == job.id
        with pytest.raises(InvalidStatus) as refused:
            await connect(
                server.socket, additional_headers=cookie, origin=Origin("https://evil.example")
            )
    assert refused.value.response.status_code == 403


async def test_socket_reports_that_it_is_alive_and_its_servers_stop(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "KEEPALIVE_S", 0.05)
    async with listened_to(app) as server:
        async with talker(server) as client:
            assert await client.hear() == {"alive": True}
            server.service.ask_to_stop()
            with pytest.raises(ConnectionClosed) as closed:
                await client.hear_out()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
        assert await refusal(server) == 503


async def test_client_that_does_not_read_is_dropped_without_delays(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who reads must not be given up as well when the machine stands still.
    monkeypatch.setattr(streams, "SEND_TIMEOUT_S", 4.0)
    monkeypatch.setitem(live_hub.POLL_INTERVALS, "job", live_hub.PollInterval(0.01, 0.02))
    job = await app.enqueue(work)
    heard = Heard()
    async with listened_to(app, small=True) as server:
        hub: Hub = server.service.asgi.state.runtime.hub
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            path = f"/api/v1/live/job/{job.id}"
            slow.sendall(
                f"GET {path} HTTP/1.1\r\nhost: localhost\r\nx-caller: bob\r\n\r\n".encode()
            )
            listening = asyncio.create_task(hear(f"{server.live}/job/{job.id}", heard))
            await until(lambda: hub.listeners == 2 and heard.events)

            async def is_given_up() -> bool:
                await connection.execute(
                    "INSERT INTO penstock.progress AS p (job, done, message) "
                    "VALUES ($1, 1, repeat('x', 50000)) ON CONFLICT (job) DO UPDATE "
                    "SET done = p.done + 1, updated_at = clock_timestamp()",
                    int(job.id),
                )
                return hub.listeners == 1

            await until(is_given_up)
            assert not listening.done()
            await app.cancel(job)
            await listening
            assert await asyncio.to_thread(_last_of, slow) == b""
    assert heard.states[-1] == "cancelled"
    assert hub.listeners == 0


def _last_of(slow: socket.socket) -> bytes:
    """Read to the end: what a server sends before it closes."""
    slow.settimeout(30)
    while read := slow.recv(2**20):
        pass
    return read


async def test_a_mailbox_keeps_the_newest_state_of_each_subject() -> None:
    one, two = Subject("job", "1"), Subject("job", "2")
    listener = Mailbox()
    for told in (
        older := Update.of(one, None),
        other := Update.of(two, None),
        newer := Update.of(one, None),
    ):
        listener.put(told)
    assert older is not newer
    assert await listener.next(1) is newer
    assert await listener.next(1) is other
    assert await listener.next(0.01) is None
