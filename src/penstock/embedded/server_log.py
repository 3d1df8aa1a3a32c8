"""What Postgres itself says when something went wrong."""

from pathlib import Path

START_LOG = "start.log"
"""For what is said before the log in the folder `log` is open; new at each start."""


def last_words(data: Path) -> str:
    """Its last grave complaint and where to read more, as a sentence for an error message."""
    logs = sorted(_logs(data), key=lambda log: log.stat().st_mtime)
    if not logs:
        return "It has left no log."
    lines = logs[-1].read_text(errors="replace").splitlines()
    grave = [at for at, line in enumerate(lines) if "FATAL" in line or "PANIC" in line]
    if not grave:
        return f"Its log {logs[-1]} names no cause."
    # The cause is often in the line before, a hint in the line after.
    said = lines[max(grave[-1] - 1, 0) : grave[-1] + 2]
    return f"Its log says: {' / '.join(said)} (from {logs[-1]})"


def _logs(data: Path) -> list[Path]:
    found = [*data.glob("log/*.log"), data / START_LOG]
    return [log for log in found if log.exists() and log.stat().st_size > 0]
