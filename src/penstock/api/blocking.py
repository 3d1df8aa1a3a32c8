"""The same calls for code that does not await."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from datetime import timedelta
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from penstock.api.answers import Live
from penstock.api.calls import TIMEOUT, AsyncApi, lead
from penstock.api.wire import Blocking
from penstock.client import SubjectKind
from penstock.store import drive

P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[AsyncApi, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Api, P], T]:
    """A call as one that blocks, with the same parameters and the same result."""

    @wraps(method)
    def call(self: Api, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(method(self._api, *args, **kwargs))

    return call


class Api:
    """A service, for scripts, threads and frameworks that block.

    with Api("https://queue.example.org", key="pk_…") as api:
        job = api.enqueue("shop.send_mail", {"to": "ada@example.org"})
    """

    def __init__(
        self, url: str, *, key: str | None = None, http: httpx.Client | None = None
    ) -> None:
        """`url` is where the service is, with the prefix that it is mounted under, if any.

        An `http` client of your own brings proxies, certificates and timeouts; it is left open.
        """
        self._owns = http is None
        client = http or httpx.Client(timeout=TIMEOUT)
        self._api = AsyncApi(url, wire=Blocking(lead(client, url, key)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns:
            drive(self._api.close())

    ask = blocking(AsyncApi.ask)
    enqueue = blocking(AsyncApi.enqueue)
    enqueue_many = blocking(AsyncApi.enqueue_many)
    get = blocking(AsyncApi.get)
    states = blocking(AsyncApi.states)
    list = blocking(AsyncApi.list)
    wait = blocking(AsyncApi.wait)
    cancel = blocking(AsyncApi.cancel)
    retry = blocking(AsyncApi.retry)
    unblock = blocking(AsyncApi.unblock)
    delete = blocking(AsyncApi.delete)
    act = blocking(AsyncApi.act)
    get_batch = blocking(AsyncApi.get_batch)
    batches = blocking(AsyncApi.batches)
    wait_batch = blocking(AsyncApi.wait_batch)
    cancel_batch = blocking(AsyncApi.cancel_batch)
    get_workflow = blocking(AsyncApi.get_workflow)
    workflows = blocking(AsyncApi.workflows)
    cancel_workflow = blocking(AsyncApi.cancel_workflow)
    dead_letters = blocking(AsyncApi.dead_letters)
    dead_summary = blocking(AsyncApi.dead_summary)
    redrive = blocking(AsyncApi.redrive)
    purge = blocking(AsyncApi.purge)
    send_event = blocking(AsyncApi.send_event)

    def live(
        self, kind: SubjectKind, id: str, *, timeout: float | timedelta | None = None
    ) -> Iterator[Live]:
        """The present state of a subject, then each that follows. See `AsyncApi.live`."""
        states: Any = self._api.live(kind, id, timeout=timeout)
        return _driven(states)


def _driven(states: AsyncGenerator[Live, None]) -> Iterator[Live]:
    try:
        while True:
            try:
                state = drive(anext(states))
            except StopAsyncIteration:
                return
            yield state
    finally:
        drive(states.aclose())
