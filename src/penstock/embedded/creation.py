"""A new database: the files, its settings, and who may connect."""

import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from penstock.embedded.account import Account
from penstock.embedded.binaries import Binaries
from penstock.embedded.folder import Folder
from penstock.errors import EmbeddedError


def create(folder: Folder, binaries: Binaries, account: Account) -> None:
    for left in folder.path.glob("postgres.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    # Renamed when complete: a half-made database is never mistaken for a whole one.
    made = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=folder.path))
    account.own(made)
    _initdb(made, binaries, account)
    settings = files("penstock.embedded") / "postgresql.conf"
    (made / "postgresql.conf").write_text(settings.read_text())
    (made / "pg_hba.conf").write_text("local all all peer map=penstock\n")
    (made / "pg_ident.conf").write_text(_ident(binaries, account))
    made.rename(folder.data)


def _initdb(made: Path, binaries: Binaries, account: Account) -> None:
    # Sorted by bytes, with the case rules of Unicode where Postgres has them built in: the same
    # on every machine and after every upgrade of its C library.
    locale = ["--encoding=UTF8", "--locale=C"]
    if binaries.major >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    with account.reach(made) as (path, fds):
        run = account.run(
            [binaries.program("initdb"), "-D", path, "-U", "postgres", "-k", *locale],
            keep_open=fds,
        )
    if run.returncode != 0:
        raise EmbeddedError(
            f"A new database in {made.parent} could not be created. "
            f"initdb said: {(run.stderr or run.stdout).strip()}"
        )


def _ident(binaries: Binaries, account: Account) -> str:
    # The server's account and root could read the files anyway. From version 16 on they may take
    # any role, before that only those named here.
    roles = ["all"] if binaries.major >= 16 else ["penstock", "postgres"]
    callers = sorted({"root", account.name})
    return "".join(f'penstock "{caller}" {role}\n' for caller in callers for role in roles)
