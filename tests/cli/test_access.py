"""Keys, people and the audit on the command line."""

import getpass
import json

from tests.cli.command import Commands
from tests.cli.conftest import Shop


async def test_a_key_is_printed_once(penstock: Commands, shop: Shop) -> None:
    made = penstock.run(
        *("keys", "create", "ci", "--scope", "read", "--scope", "enqueue", "--expires", "90d")
    )
    secret = made.stdout.strip()
    assert secret.startswith("pk_")
    assert "The key ci may read, enqueue, until" in made.stderr
    found = await shop.app.check_key(secret)
    assert found is not None
    assert found.scopes == {"read", "enqueue"}
    listed = penstock.run("keys", "list")
    assert "ci" in listed.stdout
    assert "expires in" in listed.stdout
    assert secret.rpartition("_")[2] not in listed.stdout


async def test_a_key_is_replaced_and_revoked(penstock: Commands, shop: Shop) -> None:
    old = (await shop.app.create_key("ci", scopes=["read"])).secret
    new = json.loads(penstock.run("keys", "rotate", "ci", "--json").stdout)["secret"]
    assert await shop.app.check_key(old)
    assert await shop.app.check_key(new)
    assert "replaced, expires in" in penstock.run("keys", "list").stdout
    assert penstock.run("keys", "revoke", "ci").returncode == 0
    assert await shop.app.check_key(old) is None
    assert await shop.app.check_key(new) is None
    assert penstock.run("keys", "revoke", "ci").returncode == 3
    assert penstock.run("keys", "list", "--all").stdout.count("revoked") == 2


def test_a_key_for_a_tenant_needs_row_level_security(penstock: Commands) -> None:
    refused = penstock.run("keys", "create", "ci", "--scope", "read", "--tenant", "acme")
    assert refused.returncode == 1
    assert "`penstock migrate --rls` first" in refused.stderr


def test_a_name_in_use_is_refused(penstock: Commands) -> None:
    assert penstock.run("keys", "create", "ci", "--scope", "read").returncode == 0
    again = penstock.run("keys", "create", "ci", "--scope", "read")
    assert again.returncode == 4
    assert "free this one with `penstock keys revoke ci`" in again.stderr


async def test_a_person_s_password_comes_by_standard_input(penstock: Commands, shop: Shop) -> None:
    added = penstock.run("people", "add", "ada", "--role", "operator", stdin="a long password\n")
    assert added.stdout == "ada may log in, as operator.\n"
    before = await shop.app.find_person("ada")
    assert before is not None
    assert before.password_hash.startswith("$argon2id$")
    assert penstock.run("people", "password", "ada", stdin="another long one\n").returncode == 0
    after = await shop.app.find_person("ada")
    assert after is not None
    assert after.password_hash != before.password_hash
    assert penstock.run("people", "disable", "ada").stdout.startswith("ada, operator, may not")
    assert await shop.app.find_person("ada") is None
    [found] = json.loads(penstock.run("people", "list", "--json").stdout)["people"]
    assert found["disabled_at"]
    assert "password" not in str(found)


def test_a_short_password_or_none_is_refused(penstock: Commands) -> None:
    add = ("people", "add", "ada", "--role", "viewer")
    short = penstock.run(*add, stdin="hunter2\n")
    assert (short.returncode, "hunter2" in short.stderr) == (2, False)
    assert "10 to 1000 characters" in short.stderr
    assert "contains no password" in penstock.run(*add, stdin="").stderr


async def test_the_audit_names_who_typed(penstock: Commands, shop: Shop) -> None:
    job = await shop.app.enqueue(shop.greet, "Ada")
    penstock.run("jobs", "cancel", job.id)
    penstock.run("queues", "pause", "mail")
    penstock.run("keys", "create", "ci", "--scope", "read")
    told = json.loads(penstock.run("audit", "--json").stdout)["entries"]
    assert [(each["action"], each["target"]) for each in told] == [
        ("create_key", "ci"),
        ("pause", "mail"),
        ("cancel", job.id),
    ]
    assert {each["actor"] for each in told} == {getpass.getuser()}
    table = penstock.run("audit", "--action", "cancel", "--limit", "1")
    assert job.id in table.stdout
    assert "--after" in table.stderr
