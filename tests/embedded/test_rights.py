"""Who the server runs as, who may connect, and what the application may do."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from penstock.embedded import Server, install
from penstock.embedded.install import Account, Binaries, account_for
from penstock.embedded.postmaster import provision
from tests.embedded.holder import Holder
from tests.embedded.query import value

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


async def test_applications_role_owns_its_database_without_superuser(running: Server) -> None:
    connection = await asyncpg.connect(running.url())
    role = await connection.fetchrow(
        "SELECT rolsuper, rolbypassrls, rolcreatedb FROM pg_roles WHERE rolname = current_user"
    )
    assert role is not None
    assert set(role.values()) == {False}
    # It may create roles, and do with those alone what it likes.
    await connection.execute("CREATE ROLE of_its_own; DROP ROLE of_its_own")
    for role_of_others in ("pg_read_all_data", "postgres"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(f"GRANT {role_of_others} TO penstock")
    await connection.execute("CREATE SCHEMA of_its_own")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("CREATE DATABASE another")
    await connection.close()


async def test_the_admin_is_a_superuser(running: Server) -> None:
    assert await value(running.admin_url(), "SHOW is_superuser") == "on"


async def test_the_extension_vector_is_there_for_the_application(running: Server) -> None:
    assert await value(running.url(), "SELECT vector_dims('[1,2,3]'::vector)") == 3


async def test_server_commits_durably_and_listens_on_no_network(running: Server) -> None:
    expected = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "max_prepared_transactions": "0",
    }
    url = running.url()
    assert {name: await value(url, f"SHOW {name}") for name in expected} == expected


@only_root
def test_roots_server_runs_under_an_unprivileged_account(running: Server) -> None:
    owner = Path(f"/proc/{running.status().pid}").stat().st_uid
    assert owner != 0
    assert pwd.getpwuid(owner).pw_name != "nobody"
    assert (running.data_dir / "postgres").stat().st_uid == owner


@only_root
def test_binaries_out_of_reach_of_the_account_are_copied(
    expendable: Server, tmp_path: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "CACHE", open_folder / "cache")
    hidden = _hidden_copy(Binaries.find(), tmp_path / "hidden")
    server = Server(expendable.data_dir, bin_dir=hidden)
    server.start()  # a hold would bring a watcher, which does not know of this cache
    try:
        program = Path(f"/proc/{server.status().pid}/exe").readlink()
        assert program.is_relative_to(open_folder / "cache")
    finally:
        server.stop()


@only_root
def test_root_and_an_ordinary_user_share_servers(
    open_folder: Path, holder: Callable[..., Holder], server_on: Callable[[Path], Server]
) -> None:
    nobody = _nobody()
    os.chown(open_folder, nobody.uid, nobody.gid)
    theirs = holder(open_folder / "penstock", through=_as(nobody))
    url = theirs.url()
    server = server_on(open_folder / "penstock")
    with server.hold() as roots_url:
        assert roots_url == url
        assert Path(f"/proc/{server.status().pid}").stat().st_uid == nobody.uid
    assert server.status().holders == (theirs.pid,)
    theirs.end()
    assert not server.status().running
    with server.hold() as url:
        assert holder(open_folder / "penstock", through=_as(nobody)).url() == url


@only_root
def test_another_user_cannot_connect(running: Server) -> None:
    psql = Binaries.find().usable_by(_nobody()).program("psql")
    assert provision(psql, running.admin_url())
    refused = _nobody().run([psql, running.admin_url(), "-c", "SELECT 1"])
    assert "Permission denied" in refused.stderr


@only_root
def test_server_authenticates_its_account_by_peer(running: Server) -> None:
    """Nobody has to keep a password, and nobody can claim another account's name."""
    path = running.status().socket_dir
    assert path is not None
    psql = Binaries.find().usable_by(_nobody()).program("psql")
    path.chmod(0o711)
    try:
        refused = _nobody().run([psql, running.admin_url(), "-c", "SELECT 1"])
    finally:
        path.chmod(0o700)
    assert "Peer authentication failed" in refused.stderr
    account = account_for(running.data_dir / "postgres")
    assert account.run([psql, running.admin_url(), "-c", "SELECT 1"]).returncode == 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="penstock-open-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


def _hidden_copy(original: Binaries, hidden: Path) -> Path:
    package = original.bin_dir.parents[1]
    for part in (original.bin_dir.parent, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, hidden / part.relative_to(package.parent))
    hidden.chmod(0o700)
    return hidden / original.bin_dir.relative_to(package.parent)


def _nobody() -> Account:
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _as(account: Account) -> tuple[str, ...]:
    # Root's Python may lie below /root: the right to read everything lets the user run it, and
    # changes nothing for Postgres, which only asks whether it is root.
    read = "+dac_read_search"
    switch = (f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups")
    return ("setpriv", *switch, f"--inh-caps={read}", f"--ambient-caps={read}")
