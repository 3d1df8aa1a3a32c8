"""What Postgres itself says when something went wrong."""

from pathlib import Path

START_LOG = "start.log"
"""For what is said before the log in the folder `log` is open; new at each start."""


def last_words(data: Path) -> str:
    """Its last grave complaints and where to read more, as sentences for an error message."""
    logs = sorted(_logs(data), key=lambda log: log.stat().st_mtime)
    if not logs:
        return "It has left no log."
    lines = logs[-1].read_text(errors="replace").splitlines()
    grave = [line for line in lines if "FATAL" in line or "PANIC" in line][-3:]
    said = "Its log says: " + " / ".join(grave) if grave else "Its log names no cause."
    return f"{said} (from {logs[-1]})"


def _logs(data: Path) -> list[Path]:
    found = [*data.glob("log/*.log"), data / START_LOG]
    return [log for log in found if log.exists() and log.stat().st_size > 0]
