"""What the guides show is true: their files are written, their commands run, their output compared.

A Python block that begins with a file's name is that file. The lines of an sh block are commands; a
worker that is not told to leave runs beside the rest. A text block is what the command before it
says.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from tests.fixtures.database import Database

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


class Reader:
    """Does what a guide says."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        cleared = {key: value for key, value in os.environ.items() if "PENSTOCK" not in key}
        source = str(Path(penstock.__file__).parents[1])
        self._environment = cleared | {
            "PYTHONPATH": source,
            "PENSTOCK_DATABASE_URL": url,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        self._workers: list[subprocess.Popen[bytes]] = []
        self._said = ""

    def follow(self, guide: str) -> None:
        for kind, text in BLOCK.findall(guide):
            match kind:
                case "python":
                    name = text.partition("\n")[0].removeprefix("# ")
                    (self._folder / name).write_text(text)
                case "sh":
                    self._said = "".join(self._run(line) for line in text.splitlines())
                case "text":
                    assert self._said == text

    def _run(self, line: str) -> str:
        command = line.replace("penstock ", f"{sys.executable} -m penstock.cli ", 1)
        if "penstock.cli work" in command and "--drain" not in command:
            self._start_worker(command)
            return ""
        ended = subprocess.run(
            ["/bin/sh", "-ec", command],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"
        return ended.stdout

    def _start_worker(self, command: str) -> None:
        worker = subprocess.Popen(
            command.split(),
            cwd=self._folder,
            env=self._environment,
            stderr=subprocess.PIPE,
        )
        self._workers.append(worker)
        assert worker.stderr is not None
        assert b"serves" in worker.stderr.readline()

    def close(self) -> None:
        for worker in self._workers:
            worker.terminate()
            worker.communicate(timeout=30)
            assert worker.returncode == 0


@pytest.fixture
def reader(tmp_path: Path, database: Database) -> Iterator[Reader]:
    reader = Reader(tmp_path, database.url)
    yield reader
    reader.close()


@pytest.mark.parametrize("guide", ["README.md", "docs/getting-started.md"])
def test_a_guide_can_be_followed(guide: str, reader: Reader) -> None:
    reader.follow((ROOT / guide).read_text())


async def test_the_sql_of_the_guides_can_be_run(database: Database) -> None:
    statements = [
        text
        for guide in sorted((ROOT / "docs").glob("*.md"))
        for kind, text in BLOCK.findall(guide.read_text())
        if kind == "sql"
    ]
    assert statements
    async with database.connect() as connection:
        for text in statements:
            await connection.execute(text)


@pytest.mark.parametrize(
    "guide", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(guide: str) -> None:
    for target in LINK.findall((ROOT / guide).read_text()):
        assert (ROOT / guide).parent.joinpath(target).exists(), target
