"""Commands in processes of their own, forked from one that has imported all they need.

The start of an interpreter and its imports are most of what a short command takes. This file is
also the program that forks: it reads what to run from a socket, with the three streams of it.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import ExitStack
from pathlib import Path

MOST = 1024 * 1024


class Forker:
    """A process that has imported `penstock.cli`, and forks itself for each command."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
            )

    def run(
        self, arguments: list[str], folder: Path, environment: dict[str, str], stdin: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        given = json.dumps({"args": arguments, "cwd": str(folder), "env": environment}).encode()
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin.encode())
            files[0].seek(0)
            self._ours.settimeout(90)
            socket.send_fds(self._ours, [given], [file.fileno() for file in files])
            code = int(self._ours.recv(64))
            for file in files[1:]:
                file.seek(0)
            said, told = (file.read().decode() for file in files[1:])
        return subprocess.CompletedProcess(["penstock", *arguments], code, said, told)

    def close(self) -> None:
        self._ours.close()
        self._process.wait(30)


def serve(channel: socket.socket) -> None:
    import penstock.cli  # noqa: F401

    while True:
        given, streams, _, _ = socket.recv_fds(channel, MOST, 3)
        if not given:
            return
        child = os.fork()
        if child == 0:
            channel.close()
            become(json.loads(given), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(given: dict[str, object], streams: list[int]) -> None:
    """Be the command, in this process, and end with it."""
    from penstock.cli import main

    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(str(given["cwd"]))
        os.environ.clear()
        os.environ.update(given["env"])  # type: ignore[call-overload]
        sys.path[0] = str(given["cwd"])
        sys.argv = ["penstock", *given["args"]]  # type: ignore[misc]
        random.seed()
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for text in (sys.stdout, sys.stderr):
            text.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
