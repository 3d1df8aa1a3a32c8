"""Another process that holds a server, until it is told to let go or is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import penstock
from penstock.embedded import Server
from tests.fixtures.forking import Forked
from tests.fixtures.pythons import pythons

PROGRAM = ("-m", "tests.embedded.holder")


class Holder:
    def __init__(self, data_dir: Path, *, through: Sequence[str] = ()) -> None:
        """`through` is a program that starts the process, as another user for example."""
        sources = [Path(penstock.__file__).parents[1], Path(__file__).parents[2]]
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(map(str, sources))}
        self._process: subprocess.Popen[str] | Forked
        if through:
            self._process = subprocess.Popen(
                [*through, sys.executable, *PROGRAM, data_dir],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd="/",
                env=environment,
            )
        else:
            arguments = [*PROGRAM, str(data_dir)]
            self._process = pythons().start(
                arguments, Path("/"), environment, stdin=None, stdout=None, stderr=2
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def url(self) -> str:
        """Wait until it holds the server."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the holder ended before it held the server; its stderr says why"
        return line

    def fork_a_child_that_releases(self) -> None:
        """The child lives on until this object's end of its stdin is closed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("fork\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "released\n"

    def end(self) -> None:
        """Let it end in the ordinary way: it leaves its hold to the end of the interpreter."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0

    def kill(self) -> None:
        """End it with SIGKILL; harmless if it has ended."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def close(self) -> None:
        self.kill()
        if isinstance(self._process, Forked):
            self._process.close()
            return
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def main(data_dir: str) -> None:
    hold = Server(data_dir).acquire()
    print(hold.url, flush=True)
    if sys.stdin.readline() == "fork\n" and os.fork() == 0:
        hold.release()
        print("released", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
