"""Imports once what the processes of a scene need; each of them is a fork of it.

The start of an interpreter and its imports are most of what a process costs that is killed soon.
A fork is as much a process as another: it has its own session, environment, words and end.
"""

import contextlib
import gc
import importlib
import marshal
import os
import random
import select
import signal
import socket
import sys
import traceback
from functools import partial

MODULES = ("tests.chaos.worker", "tests.chaos.enqueuer")
MOST = 1024 * 1024


class Mother:
    """Forks as it is told to; says who was born, and what each ended with."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, tuple[socket.socket, int]] = {}
        self._poll = select.poll()

    def serve(self) -> None:
        """Until the one who started this has gone."""
        self._poll.register(self._control, select.POLLIN)
        while True:
            for ready, _ in self._poll.poll():
                if ready in self._children:
                    self._end(ready)
                elif not self._bear():
                    return

    def close(self) -> None:
        for _, child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)

    def _bear(self) -> bool:
        given, files, _, _ = socket.recv_fds(self._control, MOST, 2)
        if not given:
            return False
        module, told, environment = marshal.loads(given)
        words, way = files
        asker = socket.socket(fileno=way)
        child = os.fork()
        if child == 0:
            live(partial(sys.modules[module].run, told), environment, words, asker)
        os.close(words)
        end = os.pidfd_open(child)
        self._children[end] = (asker, child)
        self._poll.register(end, select.POLLIN)
        return True

    def _end(self, ready: int) -> None:
        asker, child = self._children.pop(ready)
        self._poll.unregister(ready)
        os.close(ready)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(OSError):  # It may have gone.
            asker.send(str(os.waitstatus_to_exitcode(status)).encode())
        asker.close()


def live(run: partial[None], environment: dict[str, str], words: int, asker: socket.socket) -> None:
    """Be a process of the scene, and end with it."""
    code = 1
    try:
        os.setsid()
        # Only now: whoever knows of it may signal its group.
        asker.send(str(os.getpid()).encode())
        os.dup2(words, 1)
        os.dup2(words, 2)
        os.closerange(3, 1024)
        os.environ.clear()
        os.environ.update(environment)
        random.seed()
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        for text in (sys.stdout, sys.stderr):
            text.flush()
        os._exit(code)


if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # Memory that is never written to stays shared.
    mother = Mother(socket.socket(fileno=int(sys.argv[1])))
    try:
        mother.serve()
    finally:
        mother.close()
