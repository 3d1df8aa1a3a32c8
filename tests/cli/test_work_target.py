"""`penstock work` finds the app, or says clearly why not."""

import pytest

from tests.cli.command import Commands


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("empty", "", "The module empty has no Penstock app at its top level."),
        ("pair", "from penstock import Penstock\na, b = Penstock(), Penstock()",
         "The module pair has several apps. Name one: pair:a or pair:b."),
        ("empty:app", "", "The module empty has nothing called app."),
        ("number:app", "app = 42", "number:app is not a Penstock app but of type int."),
        ("needy", "import absent_library",
         "The module needy could not be imported: ModuleNotFoundError: "
         "No module named 'absent_library'."),
        ("folder/shop.py", "", "'folder/shop.py' is not a module name."),
        ("shop.jobs", "", "There is no module shop.jobs, "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_app(bare: Commands, target: str, code: str, message: str) -> None:
    (bare.folder / f"{target.partition(':')[0].rpartition('/')[2]}.py").write_text(code)
    failed = bare.run("work", target)
    assert failed.returncode == 1
    assert failed.stderr.startswith(message)
    assert failed.stderr.count("\n") == 1


def test_two_names_for_one_app_are_one_app(penstock: Commands) -> None:
    (penstock.folder / "again.py").write_text("from shop import app\nqueue = app\n")
    assert penstock.run("work", "again", "--drain").returncode == 0


def test_error_names_an_unreachable_database_without_password(bare: Commands) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/orders"
    failed = bare.run("work", "shop", "--database-url", url)
    assert failed.returncode == 1
    assert failed.stderr.startswith("The database orders on 127.0.0.1:1 cannot be reached: ")
    assert "secret" not in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_a_database_without_the_tables_says_what_to_do(penstock: Commands) -> None:
    failed = penstock.run("work", "shop", "--schema", "elsewhere")
    assert failed.returncode == 1
    assert "penstock migrate" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "5"], "can only be used with --drain"),
        (["--drain", "--processes", "2"], "--drain cannot be used with --processes"),
        (["--lease", "soon"], "'soon' is not a duration"),
        (["--queue", "mail:0"], "The setting slots of queue mail is 0; it must be 1 to"),
        (["--queue", "mail:5", "--queue", "mail"], "the queue mail is given twice"),
        (
            ["--queue", "mail:-5"],
            "--queue mail:-5 has no number of slots after its last colon; "
            "write mail:100, or mail:-5:100 if the queue's name is mail:-5",
        ),
        (["--lease", "10s", "--heartbeat", "9s"], "The setting heartbeat is 9.0;"),
    ],
)
def test_options_that_do_not_fit(bare: Commands, arguments: list[str], message: str) -> None:
    failed = bare.run("work", "shop", *arguments)
    assert failed.returncode == 2
    assert message in failed.stderr
