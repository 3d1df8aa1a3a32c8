"""Both ends of the channel between a worker and one child process."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from penstock.forks import reset_in_forks
from penstock.isolation.client import StartedChild
from penstock.isolation.death import Cause
from penstock.isolation.protocol import Frames, InvalidMessage, frame_message, receive
from penstock.worker.children.messages import (
    CallRequest,
    CallResponse,
    FromChild,
    FromWorker,
    decode_error,
    encode,
    encode_error,
    read_from_child,
    read_from_worker,
)

if TYPE_CHECKING:
    from penstock.worker.children.assignment import Assignment


logger = logging.getLogger("penstock.isolation")

# Room for the largest result, or for all steps that a job may keep, and a little more.
MAX_MESSAGE_BYTES: Final = 64 * 2**20
# How long a supervisor may take to report a death after the channel has closed.
DEATH_REPORT_WAIT_S: Final = 1.0

ServeRequest = Callable[["Assignment | None", CallRequest], Awaitable[Any]]
OnMessage = Callable[["ChildConnection", FromChild], None]
OnBroken = Callable[["ChildConnection", Cause, object], None]


class ChildConnection:
    """The worker's end of a child's channel, and the child's current assignment."""

    def __init__(
        self, started: StartedChild, on_message: OnMessage, serve: ServeRequest, on_broken: OnBroken
    ) -> None:
        self.number = started.number
        self.jobs = 0
        self.is_ready = False
        # Why the channel is broken, if it is.
        self.broken_by: Cause | None = None
        self.is_killed = False
        # The assignment that the child has now. The pool sets it.
        self.assignment: Assignment | None = None
        self._channel = started.channel
        self._on_message = on_message
        self._serve = serve
        self._on_broken = on_broken
        self._frames = Frames(MAX_MESSAGE_BYTES)
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._channel, self._read)
        self._serving: set[asyncio.Task[None]] = set()
        self._is_open = True

    def send(self, message: FromWorker) -> None:
        """Send a message to the child without waiting."""
        if not self._is_open:
            return
        data = frame_message(encode(message))
        if not self._unsent:
            try:
                data = data[self._channel.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # It is dead, and the supervisor will report that.
        if data:
            if not self._unsent:
                self._loop.add_writer(self._channel, self._write)
            self._unsent += data

    def _write(self) -> None:
        try:
            del self._unsent[: self._channel.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._channel)

    def _read(self) -> None:
        if (data := receive(self._channel)) is None:
            return
        if not data:
            # The supervisor reports how it died, unless a job has only closed a file that is not
            # its own.
            self._loop.remove_reader(self._channel)
            self._loop.call_later(DEATH_REPORT_WAIT_S, self._check_closed)
            return
        try:
            for message in self._frames.feed(data):
                self._handle(read_from_child(message))
        except (InvalidMessage, msgspec.MsgspecError) as error:
            # Something else writes to the channel, or over the child's memory.
            self._loop.remove_reader(self._channel)
            self._on_broken(self, "garbage", error)

    def _check_closed(self) -> None:
        if self._is_open:
            self._on_broken(self, "closed", "the child closed its channel, but still runs")

    def _handle(self, message: FromChild) -> None:
        try:
            self._dispatch(message)
        except Exception:
            # A log filter may have failed, say: later messages must be handled all the same.
            logger.exception(
                "A message of a child process could not be handled: %s", type(message).__name__
            )

    def _dispatch(self, message: FromChild) -> None:
        if isinstance(message, CallRequest):
            # It is for the present assignment: in a moment that may be another one.
            task = self._loop.create_task(self._respond(message, self.assignment))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        else:
            self._on_message(self, message)

    async def _respond(self, request: CallRequest, assignment: Assignment | None) -> None:
        try:
            response = CallResponse(request.call, await self._serve(assignment, request))
        except Exception as error:
            response = CallResponse(request.call, None, encode_error(error))
        if request.call:
            self.send(response)

    def close(self) -> None:
        """Read what the child sent before it died, and close the channel."""
        if self._is_open:
            self._read()
            self._is_open = False
            for task in self._serving:
                task.cancel()
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
            self._channel.close()


class Channel:
    """The child's end of the channel.

    It sends from any thread, receives on the event loop, and makes calls.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        # Event loops require it; some set it themselves.
        self._channel.setblocking(False)
        self._writable = select.poll()
        self._writable.register(channel, select.POLLOUT)
        self._frames = Frames()
        self.reset_after_fork()
        reset_in_forks(self)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._last_call = 0

    def reset_after_fork(self) -> None:
        """Create a new lock.

        In a process that a job has forked, a thread of the parent may hold the old lock.
        """
        self._send_lock = threading.Lock()

    def listen(
        self, on_message: Callable[[FromWorker], None], on_close: Callable[[], None]
    ) -> None:
        """Pass the worker's messages to `on_message`, on the running loop."""
        self._on_message, self._on_close = on_message, on_close
        asyncio.get_running_loop().add_reader(self._channel, self._handle)

    def send(self, message: FromChild) -> None:
        """Send a message to the worker.

        This blocks while the worker has not read earlier messages.
        """
        rest = memoryview(frame_message(encode(message)))
        with self._send_lock:
            while rest:
                try:
                    rest = rest[self._channel.send(rest) :]
                except BlockingIOError:
                    self._writable.poll()

    async def call(self, token: UUID, method: str, *args: Any) -> Any:
        """Ask the worker to do something for an attempt. Return its result or raise its error."""
        self._last_call += 1
        number = self._last_call
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self.send(CallRequest(number, token, method, list(args)))
            return await future
        finally:
            del self._calls[number]

    def notify(self, token: UUID, method: str, *args: Any) -> None:
        """Ask the worker to do something for an attempt, without waiting for a response."""
        self.send(CallRequest(0, token, method, list(args)))

    def _handle(self) -> None:
        if (data := receive(self._channel)) is None:
            return
        if not data:
            self._on_close()
            return
        for frame in self._frames.feed(data):
            message = read_from_worker(frame)
            if isinstance(message, CallResponse):
                self._respond(message)
            else:
                self._on_message(message)

    def _respond(self, response: CallResponse) -> None:
        future = self._calls.get(response.call)
        if future is None or future.done():
            return
        if response.error is None:
            future.set_result(response.value)
        else:
            future.set_exception(decode_error(response.error))
