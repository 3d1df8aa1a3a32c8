"""`manage.py`, as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(url: str) -> dict[str, str]:
    cleared = {key: value for key, value in os.environ.items() if "PENSTOCK" not in key}
    return cleared | {
        "DJANGO_SETTINGS_MODULE": "tests.django.bakery.settings",
        "BAKERY_DATABASE": url,
        "PYTHONPATH": str(ROOT),
    }


def manage(
    url: str, *arguments: str, code: int = 0, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a command of the project's; it must end with this exit code."""
    ended = subprocess.run(
        [sys.executable, "-B", "-m", "django", *arguments],
        cwd=folder,
        env=environment(url),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended
