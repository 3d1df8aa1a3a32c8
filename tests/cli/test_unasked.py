"""An embedded Postgres never starts, or is used, without a word to who did not ask for it."""

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import EmbeddedError, Penstock
from penstock.embedded.folder import Folder
from tests.cli.command import Commands
from tests.fixtures.until import until

UNASKED = "No database is named, so an embedded Postgres is used, in "
REQUIRED = {"PENSTOCK_REQUIRE_DATABASE_URL": "1"}
STARTING = (
    ["work", "shop", "--drain"],
    ["serve", "shop", "--port", "0"],
    ["up", "--port", "0"],
    ["migrate"],
    ["migrate", "--status"],
    ["enqueue", "shop.greet", '{"name": "Ada"}'],
    ["jobs", "list"],
    ["doctor"],
    ["doctor", "--app", "shop"],
    ["bench", "--jobs", "1000"],
)
ATTACHING = (
    ["work", "shop", "--drain"],
    ["migrate", "--status"],
    ["enqueue", "shop.greet", '{"name": "Ada"}', "--app", "shop"],
    ["jobs", "list"],
    ["doctor"],
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """A folder whose embedded server somebody else has started, for as long as they need it."""
    commands = Commands(tmp_path_factory.mktemp("unasked"), None)
    app = Penstock(data_dir=commands.folder / ".penstock")
    with app.sync:
        yield commands
    commands.close()


@pytest.mark.parametrize("command", STARTING, ids=" ".join)
def test_command_refuses_embedded_postgres_if_a_url_is_required(
    bare: Commands, command: list[str]
) -> None:
    refused = bare.run(*command, **REQUIRED)
    assert refused.returncode == 1
    assert "PENSTOCK_REQUIRE_DATABASE_URL=1 forbids an embedded Postgres" in refused.stderr
    assert not (bare.folder / ".penstock").exists()


@pytest.mark.parametrize("command", ATTACHING, ids=" ".join)
def test_command_warns_once_of_an_unrequested_embedded_postgres(
    place: Commands, command: list[str]
) -> None:
    warned = place.run(*command)
    assert warned.stderr.count(UNASKED) == 1, warned.stderr
    assert str(place.folder / ".penstock") in warned.stderr
    assert "PENSTOCK_DATABASE_URL" in warned.stderr


async def test_worker_processes_warn_once_of_an_embedded_postgres(place: Commands) -> None:
    run = place.start("work", "shop", "--processes", "3")
    await until(lambda: run.log.count(" serves ") == 3, 60, what="three workers")
    run.send(signal.SIGTERM)
    assert run.end(60) == 0
    assert run.log.count(UNASKED) == 1, run.log


@pytest.mark.parametrize("named", [{"PENSTOCK_DATA_DIR": ".penstock"}, REQUIRED], ids=str)
def test_command_with_a_folder_that_is_named_does_not_warn(
    place: Commands, named: dict[str, str]
) -> None:
    given = () if "PENSTOCK_DATA_DIR" in named else ("--data-dir", ".penstock")
    done = place.run("work", "shop", "--drain", *given, **named)
    assert done.returncode == 0, done.stderr
    assert "embedded" not in done.stderr


def test_command_does_not_warn_of_a_requested_embedded_postgres(place: Commands) -> None:
    assert place.run("db", "start", **REQUIRED).returncode == 0
    folder = Folder(place.folder / ".penstock")
    try:
        done = place.run("jobs", "list")
        assert (done.returncode, UNASKED in done.stderr) == (0, False)
    finally:
        with folder.lock():
            folder.clear_persistent()


@pytest.mark.parametrize("url", ["", " ", "shop"])
def test_command_refuses_an_empty_or_malformed_database_url(bare: Commands, url: str) -> None:
    for command in (["work", "shop"], ["jobs", "list"], ["migrate"], ["db", "start"]):
        refused = bare.run(*command, PENSTOCK_DATABASE_URL=url)
        assert refused.returncode != 0
        assert "PENSTOCK_DATABASE_URL" in refused.stderr, command
        refused = bare.run(*command, "--database-url", url)
        assert refused.returncode != 0
        assert "database_url" in refused.stderr, command
    assert not (bare.folder / ".penstock").exists()


async def test_app_warns_once_of_an_unrequested_embedded_postgres(
    place: Commands, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(place.folder)
    app = Penstock()
    for _ in range(2):
        async with app:
            pass
    [warning] = [record for record in caplog.records if UNASKED in record.getMessage()]
    assert warning.levelno == logging.WARNING
    async with Penstock(data_dir=Path(".penstock")):
        pass
    assert caplog.text.count(UNASKED) == 1


async def test_app_refuses_embedded_postgres_if_a_url_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_REQUIRE_DATABASE_URL", "1")
    with pytest.raises(EmbeddedError, match="PENSTOCK_REQUIRE_DATABASE_URL=1 forbids"):
        await Penstock().open()
    assert not (tmp_path / ".penstock").exists()
