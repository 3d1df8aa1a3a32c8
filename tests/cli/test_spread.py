"""A group of options, declared once, is on the command line of every command that takes it."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.framework import expand_options


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="How wide.")] = 3
    height: Annotated[int | None, typer.Option("--tall")] = None


@pytest.fixture
def given() -> list[Any]:
    return []


@pytest.fixture
def app(given: list[Any]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @expand_options
    def draw(*, what: str, size: Size, loud: bool = False) -> None:
        """Draw something."""
        given.append((what, size, loud))

    return app


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["house"], ("house", Size(), False)),
        (["house", "--width", "5", "--loud"], ("house", Size(5), True)),
        (["house", "--tall", "7"], ("house", Size(3, 7), False)),
    ],
)
def test_its_options_arrive_as_a_group(
    app: typer.Typer, given: list[Any], arguments: list[str], expected: Any
) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert given == [expected]


def test_the_help_has_them(app: typer.Typer) -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    for expected in ("Draw something.", "--width", "How wide.", "--tall", "--loud"):
        assert expected in shown
