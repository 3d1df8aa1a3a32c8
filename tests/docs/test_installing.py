"""No package index has Penstock yet, so everything says to install it from its repository."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOLD = (
    "*.md",
    "docs/**/*",
    "examples/**/*",
    "deploy/**/*",
    "src/**/*",
    "benchmarks/**/*",
    "scripts/*",
)
INSTALLS = re.compile(
    r"\b(?:pip[\d.]*|pipx|uv|uvx|poetry|pdm|conda)\s+(?:tool\s+)?(?:install|add|download|run)\b(.*)"
)
NAMES = re.compile(r"""(?<![\w./@-])penstock(?![\w./-])(?!\s*@\s*git\+https://)""")


def refused(text: str) -> list[str]:
    """The commands that ask a package index for Penstock."""
    return [found[0] for found in INSTALLS.finditer(text) if NAMES.search(found[1])]


@pytest.mark.parametrize(
    "command",
    [
        "pip install penstock",
        "`pip install 'penstock[service]'`, and then",
        "RUN /opt/bin/pip install --upgrade penstock==0.1",
        "uv add penstock[otel]",
        "uv pip install penstock",
    ],
)
def test_install_from_an_index_is_noticed(command: str) -> None:
    assert refused(command)


@pytest.mark.parametrize(
    "command",
    [
        "pip install .",
        "pip install '.[service]' in a clone of Penstock's repository",
        "pip install ./penstock",
        "pip install 'penstock @ git+https://…'",
        "pip install --constraint constraints.txt '.[service,otel]'",
        "pip install pytest-asyncio",
    ],
)
def test_install_from_the_repository_is_allowed(command: str) -> None:
    assert not refused(command)


def test_nobody_is_told_to_install_penstock_from_a_package_index() -> None:
    paths = {path for pattern in TOLD for path in ROOT.glob(pattern) if path.is_file()}
    texts = {path: path.read_text(errors="ignore") for path in paths if path.suffix != ".pyc"}
    assert len(texts) > 500
    found = {str(path.relative_to(ROOT)): refused(text) for path, text in texts.items()}
    assert {path: commands for path, commands in found.items() if commands} == {}
