"""A service ticks until it is stopped, and is stopped between two ticks if that can be."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from penstock.lifecycle import DatabaseHealth, Service
from penstock.telemetry import DatabaseGone, Event, Events


class Ticking(Service):
    name = "ticking"

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        super().__init__(DatabaseHealth(Events()))
        self._work = work
        self.began = asyncio.Event()
        self.done = 0

    async def tick(self) -> float:
        self.began.set()
        await self._work()
        self.done += 1
        return 0


def test_outage_by_a_timeout_is_logged_with_a_cause(caplog: pytest.LogCaptureFixture) -> None:
    events, seen = Events(), list[Event]()
    events.subscribe(DatabaseGone, seen.append)
    with caplog.at_level(logging.WARNING, "penstock"):
        DatabaseHealth(events).report_outage("settle", TimeoutError())
    assert seen == [DatabaseGone("settle", "no answer in time")]
    assert "does not answer (settle: no answer in time)" in caplog.text


async def test_a_tick_under_way_is_finished_and_no_other_begins() -> None:
    go_on = asyncio.Event()
    service = Ticking(go_on.wait)
    service.start()
    await service.began.wait()
    stopping = asyncio.create_task(service.stop())
    await asyncio.sleep(0)
    go_on.set()
    await stopping
    assert service.done == 1


async def test_a_tick_that_does_not_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ticking, "finish_within", 0.01)
    service = Ticking(asyncio.Event().wait)
    service.start()
    await service.began.wait()
    await asyncio.wait_for(service.stop(), 30)
    assert service.done == 0


async def test_one_that_rests_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ticking, "finish_within", 3600)
    service = Ticking(asyncio.Event().wait)
    service.start()
    await service.stop()
    assert not service.began.is_set()


@pytest.mark.parametrize("is_raised", [True, False])
async def test_stop_ends_a_service_whose_tick_swallows_cancellation(
    is_raised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncpg raises something else where the connection breaks while a statement is cancelled."""
    monkeypatch.setattr(Ticking, "finish_within", 0.01)

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            if is_raised:
                raise ConnectionResetError from cancelled

    service = Ticking(work)
    service.start()
    await service.began.wait()
    [running] = asyncio.all_tasks() - {asyncio.current_task()}
    await service.stop()
    assert running.done()
