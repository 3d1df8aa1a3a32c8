"""What the docstrings of knowledge show is run."""

import inspect
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import penstock_apps.knowledge
from penstock import Penstock
from penstock.storage.storage import Storage
from penstock_apps.knowledge import multipart_form
from penstock_apps.knowledge.file_names import display_name
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.sources import NewSource
from tests.docs.docstrings import Example, compiled, examples
from tests.fixtures.database import Database
from tests.knowledge.scene import Scene

HERE = Path(inspect.getfile(penstock_apps.knowledge)).parent
# What an example needs that no test has.
NOT_RUN = {
    "ingest/llamaparse.py LlamaParse": "an account at LlamaParse",
}
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    b"hello\r\n--x--\r\n"
)


class Asked:
    """A request whose body is a form with one file."""

    async def stream(self) -> AsyncIterator[bytes]:
        yield FORM


@pytest.fixture
async def names(
    scene: Scene,
    library: Library,
    tmp_path: Path,
    knowledge_database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """What the examples take as given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", knowledge_database.url)
    path, content = tmp_path / "handbook.pdf", tmp_path / "content"
    path.write_bytes(b"hello")
    content.write_bytes(b"hello")
    digest = sha256(b"hello").digest()
    return {
        **vars(multipart_form),
        "Knowledge": Knowledge,
        "NewSource": NewSource,
        "Penstock": Penstock,
        "Query": Query,
        "base": await library.make_base("handbook"),
        "content_type": "multipart/form-data; boundary=x",
        "digest": digest,
        "display_name": display_name,
        "files": scene.files({"a.txt": "hello"}),
        "folder": tmp_path / "folder",
        "library": library,
        "path": path,
        "received": multipart_form.ReceivedFile("a.txt", "file", "text/plain", content, digest, 5),
        "request": Asked(),
        "tables": library.runtime.tables,
        "storage": Storage.of(str(tmp_path / "stored")),
        "tenant": "acme",
    }


ALL = list(examples(HERE))


def test_examples_are_found() -> None:
    assert {each.place for each in ALL} > NOT_RUN.keys()
    # Code is a paragraph of its own, without prompts: else it would not be found.
    assert not [path for path in HERE.rglob("*.py") if ">>> " in path.read_text()]


@pytest.mark.parametrize(
    "example",
    [each for each in ALL if each.place not in NOT_RUN],
    ids=lambda each: each.place,
)
async def test_example_runs(example: Example, names: dict[str, Any]) -> None:
    running = eval(compiled(example.code, example.place), names)
    if inspect.iscoroutine(running):
        await running
