"""Under row level security nobody is told what is not so, and who is refused hears what to do."""

import json
from pathlib import Path

import pytest

from penstock import Penstock, task
from penstock.doctor import examine
from penstock.errors import NotAllowed, TenantMissing
from penstock.migrate import migrate
from tests.cli.command import Commands
from tests.fixtures.database import connected
from tests.rls.conftest import APP_LOGIN, WORKER_LOGIN, Ground

pytestmark = pytest.mark.any_server


@task
async def greet(name: str) -> str:
    return name


def answer(commands: Commands, *arguments: str, stdin: str = "") -> dict[str, object]:
    ended = commands.run(*arguments, "--json", stdin=stdin)
    assert ended.returncode == 0, ended.stderr
    read: dict[str, object] = json.loads(ended.stdout)
    return read


async def test_a_tenant_on_the_command_line_is_the_transactions(
    ground: Ground, tmp_path: Path
) -> None:
    as_app = Commands(tmp_path, ground.app_url)
    acme = ("--tenant", "acme")
    job = str(answer(as_app, "enqueue", "shop.greet", '{"name": "Ada"}', *acme)["id"])
    lines = '{"task": "x", "tenant": "globex"}\n{"task": "x", "tenant": "acme"}\n{"task": "x"}\n'
    assert answer(as_app, "enqueue", "-", *acme, stdin=lines)["enqueued"] == 3

    listed = answer(as_app, "jobs", "list", "--since", "1h", *acme)["jobs"]
    assert isinstance(listed, list)
    assert [each["tenant"] for each in listed] == ["acme"] * 3
    shown = answer(as_app, "jobs", "show", job, *acme)
    assert (shown["id"], shown["state"]) == (job, "ready")

    as_owner = Commands(tmp_path, ground.database.direct_url)
    assert as_app.run("jobs", "show", job, "--tenant", "globex").returncode == 3
    assert as_owner.run("jobs", "cancel", job, "--tenant", "globex").returncode == 3
    assert answer(as_app, "jobs", "cancel", "--yes", *acme)["changed"] == 3
    assert answer(as_app, "jobs", "delete", job, *acme)["changed"] == 1


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("jobs list", "Give --tenant, or run this as the owner of the schema"),
        ("enqueue shop.greet {}", "Give --tenant, or run this as the owner of the schema"),
        ("tenants list", "Run this as the owner of the schema"),
        ("work shop --drain", 'A worker needs `GRANT "penstock_worker" TO '),
        ("jobs list --late --tenant acme", "permission denied for function"),
    ],
)
async def test_a_command_that_the_role_is_not_for_says_so(
    seeded: Ground, tmp_path: Path, command: str, told: str
) -> None:
    ended = Commands(tmp_path, seeded.app_url).run(*command.split())
    assert ended.returncode == 1
    assert f" does not let the role {APP_LOGIN} do this: " in ended.stderr
    assert told in ended.stderr


async def test_the_doctor_says_nothing_of_what_it_does_not_see(seeded: Ground) -> None:
    report = await examine(seeded.app_url)
    by_name = {result.check.name: result for result in report.results}
    [finding] = by_name["failed-jobs"].findings
    assert finding.verdict == "skipped"
    assert f"the role {APP_LOGIN} does not see all tenants' jobs" in finding.seen
    assert "owner" in finding.remedy
    assert by_name["connection"].verdict == "ok"
    assert (await examine(seeded.database.direct_url)).counts["skipped"] <= 1


async def test_calls_that_the_role_is_not_for_say_what_to_do(ground: Ground) -> None:
    async with Penstock(ground.app_url, include=[greet]) as app:
        with pytest.raises(NotAllowed, match="To change settings") as refused:
            await app.set_limit("openai", slots=1)
        assert refused.value.role == APP_LOGIN
        assert "permission denied for" in refused.value.refused
        for question in (app.limits, app.queue_settings):
            with pytest.raises(NotAllowed, match=APP_LOGIN):
                await question()
        async with connected(ground.app_url) as connection, connection.transaction():
            with pytest.raises(NotAllowed, match="does not let the role of this connection"):
                await app.inside(connection).limits()
    async with Penstock(ground.worker_url, include=[greet]) as worker:
        for call in (worker.list(), worker.get("1"), worker.for_tenant("acme").enqueue(greet, "x")):
            with pytest.raises(NotAllowed, match='GRANT "penstock_app" TO') as refused:
                await call
            assert refused.value.role == WORKER_LOGIN


async def test_a_tenant_that_only_the_job_names_is_said_to_be_that(ground: Ground) -> None:
    async with Penstock(ground.app_url, include=[greet]) as app:
        named = greet.options(tenant="acme")
        with pytest.raises(TenantMissing, match=r"names the tenant 'acme'.*for_tenant\('acme'\)"):
            await app.enqueue(named, "Ada")
        async with connected(ground.app_url) as connection, connection.transaction():
            with pytest.raises(TenantMissing, match="names the tenant 'acme'"):
                await app.inside(connection).enqueue(named, "Ada")


async def test_roles_without_rights_are_told_that_it_is_off(ground: Ground) -> None:
    await migrate(ground.database.direct_url, rls=False)
    for url in (ground.app_url, ground.worker_url):
        with pytest.raises(NotAllowed, match=r"permission denied for schema.*migrate --rls"):
            await Penstock(url).open()
