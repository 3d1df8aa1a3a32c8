"""Postgres's own client: whoever is answered by it has talked to a real, ready server."""

import os
import subprocess
from importlib.resources import files
from pathlib import Path

from penstock.errors import EmbeddedError

NO_CONNECTION = 2  # psql's exit code for it


def provision(program: Path, url: str) -> bool:
    """Give the application its role and database; False if the server does not answer yet."""
    script = (files("penstock.embedded") / "provision.sql").read_text()
    run = subprocess.run(
        [program, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url],
        input=script,
        capture_output=True,
        text=True,
        errors="replace",
        env=_environment(),
    )
    if run.returncode not in (0, NO_CONNECTION):
        raise EmbeddedError(
            f"The embedded Postgres runs, but its database could not be set up: "
            f"{run.stderr.strip()}"
        )
    return run.returncode == 0


def _environment() -> dict[str, str]:
    # PGUSER, PGOPTIONS and their like are meant for other servers.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return env | {"PGCONNECT_TIMEOUT": "10", "LC_ALL": "C"}
