"""Start an operation elsewhere, and ask until it is over, without holding a slot meanwhile.

    python examples/poll_operation.py

The service here is slow, fails now and then, says when it wants to be left alone, and loses
requests. It is started once all the same: the step that starts it has a key made from the job.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from penstock import Context, Fixed, NotRetryable, Penstock, PollTimeout

app = Penstock()


class Service(ThreadingHTTPServer):
    """Transcribes a video in the time of some polls."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Transcription)
        self.operations: dict[str, int] = {}  # by key: how often it was asked for
        self.starts = 0
        self.faults: list[Callable[[BaseHTTPRequestHandler], None]] = [lost, broken, busy]
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def lost(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True  # done, but nobody is told


def broken(request: BaseHTTPRequestHandler) -> None:
    request.send_error(500)


def busy(request: BaseHTTPRequestHandler) -> None:
    request.send_response(503)
    request.send_header("Retry-After", "1")
    request.end_headers()


class Transcription(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        key = self.headers["Idempotency-Key"]
        if key not in self.server.operations:
            self.server.operations[key] = 0
            self.server.starts += 1
        if self.server.starts == 1 and lost in self.server.faults:
            self.server.faults.remove(lost)
            lost(self)
        else:
            self._say({"operation": key})

    def do_GET(self) -> None:
        operation = self.path.rpartition("/")[2]
        if operation not in self.server.operations:
            self.send_error(404)
        elif self.server.faults:
            self.server.faults.pop(0)(self)
        else:
            self.server.operations[operation] += 1
            is_over = self.server.operations[operation] >= 3
            self._say({"text": "water under the bridge" if is_over else None})

    def _say(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


def call(url: str, key: str | None = None) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    request = urllib.request.Request(url, headers=headers, method="POST" if key else "GET")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def start(url: str, key: str) -> str:
    operation: str = call(f"{url}/videos", key)["operation"]
    return operation


def look(url: str, operation: str) -> str | None:
    try:
        text: str | None = call(f"{url}/operations/{operation}")["text"]
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise NotRetryable(f"There is no operation {operation}.") from error
        raise
    return text


@app.task(retry=Fixed(0.1))
def transcribe(ctx: Context, url: str) -> str:
    operation = ctx.sync.step("start", start, url, f"transcribe-{ctx.job.id}")
    return ctx.sync.poll("text", look, url, operation, every=0.05, most=50, within=600)


@app.task
def hopeless(ctx: Context, url: str) -> str:
    operation = ctx.sync.step("start", start, url, f"hopeless-{ctx.job.id}")
    try:
        return ctx.sync.poll("text", look, url, operation, every=0.05, most=1)
    except PollTimeout as error:
        return f"gave up after {error.polls} poll"


async def main() -> None:
    service = Service()
    async with app, app.worker():
        job = await app.enqueue(transcribe.options(max_attempts=2), service.url)
        print(await app.wait(job, timeout=30))
        done = await app.get(job)
        # The one failure is the start whose answer was lost; no poll was one.
        print(f"{service.starts} operation started, {done.failures} failure")
        print("more than one poll:", done.attempt > 3)
        print(await app.wait(await app.enqueue(hopeless, service.url), timeout=30))
    service.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
