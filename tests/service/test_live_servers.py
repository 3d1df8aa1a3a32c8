"""Two servers and a worker, each a process: whoever is killed, all clients see the same end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

import penstock
from penstock import Penstock
from penstock.service.server import bind_socket
from tests.fixtures.database import Database
from tests.fixtures.live import Heard, hear_on, order_of
from tests.fixtures.until import until
from tests.service.live_program import held, quick


class Programs:
    """Processes that are started, killed and stopped."""

    def __init__(self, url: str) -> None:
        sources = [Path(penstock.__file__).parents[1], Path(__file__).parents[2]]
        self._mother = subprocess.Popen(
            [sys.executable, "-m", "tests.service.live_program", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sources))},
        )
        self._running = set[int]()

    def start(self, *words: object) -> int:
        """A new process; its pid."""
        assert self._mother.stdin
        assert self._mother.stdout
        print(*words, file=self._mother.stdin)
        self._running.add(pid := int(self._mother.stdout.readline()))
        return pid

    def send(self, pid: int, number: signal.Signals) -> None:
        os.kill(pid, number)

    def is_gone(self, pid: int) -> bool:
        return not Path(f"/proc/{pid}").exists()

    def end(self) -> None:
        for pid in self._running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self._mother.stdin
        self._mother.stdin.close()
        self._mother.wait(30)
        assert self._mother.stdout
        self._mother.stdout.close()


@pytest.fixture
def programs(database: Database) -> Iterator[Programs]:
    programs = Programs(database.url)
    try:
        yield programs
    finally:
        programs.end()


async def answers(port: int) -> bool:
    async with httpx.AsyncClient(timeout=30, verify=False) as http:
        with suppress(httpx.HTTPError):
            return (await http.get(f"http://127.0.0.1:{port}/livez")).status_code == 200
    return False


@pytest.fixture
def free_ports() -> Iterator[tuple[int, int]]:
    """Two ports that nobody listens at; a server that is started again has the same.

    They are bound here, so that the system gives them to nobody else.
    """
    with bind_socket("127.0.0.1", 0) as one, bind_socket("127.0.0.1", 0) as two:
        yield one.getsockname()[1], two.getsockname()[1]


async def all_answer(ports: tuple[int, int]) -> None:
    for port in ports:
        await until(partial(answers, port), what="a server to answer")


async def test_every_client_sees_the_same_end_over_kills_and_restarts(
    app: Penstock, programs: Programs, free_ports: tuple[int, int], tmp_path: Path
) -> None:
    app.include(held, quick)
    killed, stopped = [programs.start("serve", port) for port in free_ports]
    programs.start("work")
    async with app.batch("both") as batch:
        await batch.enqueue_many(quick.prepare(number) for number in range(30))
        job = await batch.enqueue(held, str(tmp_path / "go"))
    one, two = (f"http://127.0.0.1:{port}/api/v1/live" for port in free_ports)
    await all_answer(free_ports)
    of_job, of_batch = [Heard(), Heard(), Heard()], [Heard(), Heard(), Heard()]
    orders = ([one], [two], [two, one])
    clients = asyncio.gather(
        *(hear_on([f"{at}/job/{job.id}" for at in order], heard)
          for heard, order in zip(of_job, orders, strict=True)),
        *(hear_on([f"{at}/batch/{batch.id}" for at in order], heard)
          for heard, order in zip(of_batch, orders, strict=True)),
    )  # fmt: skip
    everybody = of_job + of_batch
    await until(lambda: all(heard.events for heard in everybody), what="all to hear something")

    programs.send(killed, signal.SIGKILL)
    programs.send(stopped, signal.SIGTERM)
    for each in (killed, stopped):
        await until(lambda each=each: programs.is_gone(each), what="a server to end")
    for port in free_ports:
        programs.start("serve", port)
    await all_answer(free_ports)
    (tmp_path / "go").touch()
    await asyncio.wait_for(clients, 60)

    for heard in everybody:
        assert [event["final"] for event in heard.events].count(True) == 1
        moments = [order_of(event["version"]) for event in heard.events]
        assert moments == sorted(moments)
    assert of_job[0].last == of_job[1].last == of_job[2].last
    assert of_job[0].last["state"]["result"] == "released"
    assert len({heard.last["version"] for heard in of_batch}) == 1
    assert {heard.last["state"]["completed"] for heard in of_batch} == {31}
