"""The pytest plugin, in projects of its users' kind."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import pytest_penstock
from penstock.testing.databases import folder_for
from tests.fixtures.pythons import pythons
from tests.fixtures.server import PostgresServer

APP = """
from penstock import Penstock

app = Penstock("postgresql://nobody@nowhere/production")
done = []


@app.task
async def greet(name: str) -> str:
    done.append(name)
    return f"Hello, {name}"


@app.task
def add(left: int, right: int) -> int:
    return left + right
"""

AWAITING = """
import pytest
from penstock.testing import assert_enqueued, assert_nothing_enqueued, drain
from shop import add, app, greet


@pytest.mark.parametrize("name", ["Ada", "Bob"])
{mark}
async def test_each_test_has_a_database_of_its_own(penstock_app, name):
    assert penstock_app is app
    await assert_nothing_enqueued(app)
    job = await app.enqueue(greet, name)
    await assert_enqueued(app, greet, {{"name": name}}, count=1)
    await drain(app)
    assert await app.wait(job) == f"Hello, {{name}}"


{mark}
async def test_a_job_may_stay_behind(penstock_app):
    await penstock_app.enqueue(add, 1, 2)
"""

BLOCKING = """
import psycopg
from penstock.testing.sync import assert_enqueued, drain, run
from shop import add, app, greet


def test_with_a_driver(penstock_url):
    with psycopg.connect(penstock_url) as connection:
        connection.execute("SELECT penstock.enqueue('greet', '{}')")
        assert connection.execute("SELECT count(*) FROM penstock.job").fetchone() == (1,)


def test_each_test_has_a_database_of_its_own(penstock_url):
    with psycopg.connect(penstock_url) as connection:
        assert connection.execute("SELECT count(*) FROM penstock.job").fetchone() == (0,)


def test_with_the_app(penstock_app):
    job = app.sync.enqueue(add, 1, 2)
    assert_enqueued(app, add, {"left": 1})
    drain(app)
    assert app.sync.wait(job) == 3


def test_inline():
    assert run(add, 1, 2) == 3
"""

ASYNCIO = "pytest_asyncio.plugin"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with an app, whose settings name it. Warnings are errors."""
    pytester.makepyfile(shop=APP)
    pytester.makeini("[pytest]\npenstock_app = shop:app\nfilterwarnings = error\n")
    return pytester


@pytest.fixture
def run(project: pytest.Pytester, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the project's tests in a process of their own, on the server of this session."""
    monkeypatch.setenv(pytest_penstock.RUNNING_SERVER, postgres.admin_url)

    def run(
        *options: str, plugins: tuple[str, ...] = (), python: Sequence[str] = ()
    ) -> pytest.RunResult:
        return run_project(project, monkeypatch, *options, plugins=plugins, python=python)

    return run


def run_project(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    *options: str,
    plugins: tuple[str, ...] = (),
    python: Sequence[str] = (),
) -> pytest.RunResult:
    # Named one by one: what else is installed here is not the user's.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(project.path), prepend=os.pathsep)
    named = [f"-p{name}" for name in ("pytest_penstock", *plugins)]
    if ASYNCIO in plugins:
        named.append("-oasyncio_default_fixture_loop_scope=function")
    folder = f"--basetemp={project.path / 'base'}"
    python = python or pythons().command
    return project.run(*python, "-m", "pytest", folder, "-rA", *named, *options)


def test_tests_that_await_with_pytest_asyncio(project: pytest.Pytester, run: Run) -> None:
    project.makepyfile(test_shop=AWAITING.format(mark="@pytest.mark.asyncio"))
    run("--asyncio-mode=strict", plugins=(ASYNCIO,)).assert_outcomes(passed=3)


def test_tests_that_await_with_anyio(project: pytest.Pytester, run: Run) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"
        """
    )
    project.makepyfile(test_shop=AWAITING.format(mark="@pytest.mark.anyio"))
    run(plugins=("anyio.pytest_plugin",)).assert_outcomes(passed=3)


def test_tests_that_await_in_the_standard_library_s_way(project: pytest.Pytester, run: Run) -> None:
    project.makepyfile(
        test_shop="""
        import unittest

        import pytest
        from penstock.testing import drain
        from shop import app, done, greet


        @pytest.mark.usefixtures("penstock_app")
        class Greeting(unittest.IsolatedAsyncioTestCase):
            async def test_greeting(self):
                await app.enqueue(greet, "Ada")
                await drain(app)
                self.assertEqual(done, ["Ada"])
        """
    )
    run().assert_outcomes(passed=1)


def test_awaiting_and_blocking_tests_share_an_app(project: pytest.Pytester, run: Run) -> None:
    project.makepyfile(test_blocking=BLOCKING, test_awaiting=AWAITING.format(mark=""))
    options = ("--asyncio-mode=auto", "-oasyncio_default_test_loop_scope=session")
    run(*options, plugins=(ASYNCIO,)).assert_outcomes(passed=7)


def test_the_template_can_have_tables_and_the_owner_s_extensions(
    project: pytest.Pytester, run: Run
) -> None:
    project.makeconftest(
        """
        import psycopg
        import pytest

        made = []

        @pytest.fixture(scope="session")
        def penstock_template(penstock_server, penstock_template):
            made.append(True)
            with psycopg.connect(penstock_template) as connection:
                connection.execute("CREATE TABLE invoice (number int)")
            with psycopg.connect(penstock_server.as_admin(penstock_template)) as connection:
                assert connection.execute("SHOW is_superuser").fetchone() == ("on",)
            return penstock_template
        """
    )
    project.makepyfile(
        """
        import psycopg
        import pytest
        from conftest import made


        @pytest.mark.parametrize("turn", [1, 2])
        def test_tables(penstock_url, turn):
            with psycopg.connect(penstock_url) as connection:
                assert connection.execute("SELECT count(*) FROM invoice").fetchone() == (0,)
                connection.execute("INSERT INTO invoice VALUES (1)")
            assert made == [True]
        """
    )
    run().assert_outcomes(passed=2)


def test_a_template_in_use_is_told(project: pytest.Pytester, run: Run) -> None:
    project.makeconftest(
        """
        import psycopg
        import pytest

        @pytest.fixture(scope="session")
        def penstock_template(penstock_template):
            with psycopg.connect(penstock_template):
                yield penstock_template
        """
    )
    project.makepyfile("def test_url(penstock_url): ...")
    told = run()
    told.assert_outcomes(errors=1)
    told.stdout.fnmatch_lines(["*Close every connection and pool that the penstock_template*"])


def test_an_app_can_be_led_by_a_fixture_of_one_s_own(project: pytest.Pytester, run: Run) -> None:
    project.makeini("[pytest]\nfilterwarnings = error\n")
    project.makepyfile(
        """
        import pytest
        from penstock.testing import led_to
        from penstock.testing.sync import drain
        from shop import app, greet


        @pytest.fixture
        def led(penstock_url):
            with led_to(app, penstock_url) as led:
                yield led


        def test_led(led):
            led.sync.enqueue(greet, "Ada")
            assert drain(led).completed == 1


        def test_led_back():
            assert app.url == "postgresql://nobody@nowhere/production"
        """
    )
    run().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("", "*does not know your app. Name it in pytest's settings, such as penstock_app = *"),
        ("shop:greet", "*penstock_app is 'shop:greet', which is of the type AsyncTask and no*"),
        ("shoq:app", "*No module named 'shoq'*"),
    ],
)
def test_an_app_that_is_not_found_is_told(
    project: pytest.Pytester, run: Run, setting: str, told: str
) -> None:
    project.makeini(f"[pytest]\npenstock_app = {setting}\n")
    project.makepyfile(
        """
        import pytest

        @pytest.fixture
        def penstock_url():
            return "postgresql://nobody@nowhere/tests"

        def test_app(penstock_app): ...
        """
    )
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([told])


def test_whoever_does_not_use_it_pays_nothing(project: pytest.Pytester, run: Run) -> None:
    project.makeini("[pytest]\n")
    project.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            assert "pytest_penstock" in sys.modules
            assert not {"penstock", "asyncpg", "asyncio"} & sys.modules.keys()
        """
    )
    fresh = [sys.executable]
    run("-pno:asyncio", "-pno:anyio", python=fresh).assert_outcomes(passed=1)


def test_embedded_server_lives_as_long_as_the_tests(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(pytest_penstock.RUNNING_SERVER, raising=False)
    project.makepyfile(
        """
        from penstock.testing.databases import folder_for

        def test_folder(penstock_server, tmp_path_factory):
            assert folder_for(tmp_path_factory.getbasetemp()).is_dir()
        """,
        test_shop=BLOCKING,
    )
    base = tmp_path / "base"
    run_project(project, monkeypatch, f"--basetemp={base}").assert_outcomes(passed=5)
    assert not folder_for(base).exists()


def test_processes_of_one_run_share_a_server(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As pytest-xdist starts them: side by side, each with a folder in the run's own."""
    monkeypatch.delenv(pytest_penstock.RUNNING_SERVER, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(project.path), prepend=os.pathsep)
    project.makepyfile(test_shop=BLOCKING)
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(autouse=True, scope="session")
        def tell(penstock_server):
            print("SERVER", penstock_server.url)
        """
    )
    runs = [start(project, tmp_path, f"gw{number}") for number in (1, 2)]
    told = [run.communicate(timeout=100)[0] for run in runs]
    assert all("4 passed" in text for text in told), "\n".join(told)
    servers = {line for text in told for line in text.splitlines() if "SERVER" in line}
    assert len(servers) == 1
    assert not folder_for(tmp_path).exists()


def start(project: pytest.Pytester, folder: Path, name: str) -> subprocess.Popen[str]:
    command = [*pythons().command, "-m", "pytest", "-s", "-ppytest_penstock"]
    return subprocess.Popen(
        [*command, f"--basetemp={folder / name}"],
        cwd=project.path,
        env=os.environ | {"PYTEST_XDIST_WORKER": name},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_pytest_xdist_runs_tests_side_by_side(project: pytest.Pytester, run: Run) -> None:
    pytest.importorskip("xdist")
    project.makepyfile(test_shop=BLOCKING, test_more=BLOCKING)
    run("-n2", plugins=("xdist",)).assert_outcomes(passed=8)
