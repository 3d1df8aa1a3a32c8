"""`penstock enqueue`: one job, many, and waiting for its end."""

import fcntl
import json
import signal
import struct
import termios
from datetime import timedelta
from typing import IO

import asyncpg
import pytest

from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

# Whether a command has begun to look: not before the job is stored.
LOOKS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock cli'"


async def test_a_name_and_json_are_enough(penstock: Commands, shop: Shop) -> None:
    options = (
        *("--queue", "email", "--priority", "5", "--delay", "10m", "--tenant", "acme"),
        *("--subject", "order:42", "--tag", "nightly", "--tag", "slow", "--max-attempts", "2"),
        *("--timeout", "30s", "--requested-by", "ada"),
    )
    done = penstock.run("enqueue", "elsewhere.send", '{"order": 42}', *options, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer == {"id": answer["id"], "duplicate": False}
    job = await shop.app.get(answer["id"])
    assert (job.task, job.args, job.queue) == ("elsewhere.send", {"order": 42}, "email")
    assert (job.state, job.priority, job.tenant, job.subject) == (
        *("scheduled", 5, "acme", "order:42"),
    )
    assert (job.tags, job.max_attempts, job.timeout) == (("nightly", "slow"), 2, 30.0)
    assert job.requested_by == "ada"
    assert job.run_at is not None
    assert job.run_at - job.created_at == timedelta(minutes=10)


async def test_it_says_what_was_enqueued(penstock: Commands, shop: Shop) -> None:
    done = penstock.run("enqueue", "shop.greet", '{"name": "Ada"}', "--delay", "90s")
    page = await shop.app.list()
    assert done.stdout == (
        f"Job {page.jobs[0].id} was enqueued: shop.greet in the queue default, due in 1m 30s.\n"
    )


async def test_enqueue_with_an_app_uses_the_settings_of_its_task(
    penstock: Commands, shop: Shop
) -> None:
    right = '{"started": "here", "seconds": 1.5}'
    done = penstock.run("enqueue", "shop.send", right, "--app", "shop", "--json")
    assert (await shop.app.get(json.loads(done.stdout)["id"])).queue == "mail"


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        ("shop.send", '{"started": "here"}', "missing a required argument: 'seconds'"),
        ("shop.send", '{"started": "here", "seconds": "soon"}', "Expected `float`, got `str`"),
        ("shop.sent", "{}", "No task is registered under the name 'shop.sent'. Did you mean"),
    ],
)
async def test_an_app_refuses_what_its_worker_would(
    penstock: Commands, shop: Shop, task: str, arguments: str, message: str
) -> None:
    done = penstock.run("enqueue", task, arguments, "--app", "shop")
    assert done.returncode == 1
    assert message in done.stderr
    assert (await shop.app.list()).jobs == ()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{order: 42}"], 2, "The text of the arguments is not JSON: "),
        (["[42]"], 2, "The text of the arguments is not a JSON object."),
        (["{}", "--priority", "500"], 2, "The setting priority is 500;"),
        (["{}", "--queue", "no good"], 2, "The setting queue is 'no good';"),
        (["{}", "--max-attempts", "0"], 2, "The setting max_attempts is 0;"),
        (["{}", "--delay", "soon"], 2, "'soon' is not a duration"),
        (["{}", "--at", "noon"], 2, "'noon' is not a time"),
        (["{}", "--delay", "1s", "--at", "2026-07-18"], 2, "either a delay or a run_at"),
        (["{}", "--wait-timeout", "5s"], 2, "--wait-timeout can only be used with --wait"),
        (["-", "--wait"], 2, "--wait and --idempotency-key can only be used with a single job"),
    ],
)
def test_what_cannot_be_enqueued(
    penstock: Commands, arguments: list[str], code: int, message: str
) -> None:
    done = penstock.run("enqueue", "shop.greet", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_a_key_that_is_used_again(penstock: Commands) -> None:
    enqueue = ("enqueue", "shop.greet", '{"name": "Ada"}', "--idempotency-key", "ada")
    first = json.loads(penstock.run(*enqueue, "--json").stdout)
    again = penstock.run(*enqueue)
    assert again.returncode == 0
    assert again.stdout == f"Nothing was enqueued: the key ada belongs to job {first['id']}.\n"
    other = penstock.run("enqueue", "shop.greet", '{"name": "Bo"}', "--idempotency-key", "ada")
    assert other.returncode == 4
    assert "with another task or other arguments" in other.stderr


async def test_each_line_of_stdin_has_the_arguments_of_a_job(
    penstock: Commands, shop: Shop
) -> None:
    lines = "".join(f'{{"name": "customer {n}"}}\n' for n in range(2500)) + "\n"
    done = penstock.run("enqueue", "shop.greet", "-", "--tenant", "acme", "--json", stdin=lines)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["enqueued"], answer["duplicates"], len(answer["ids"])) == (2500, 0, 2500)
    first, last = await shop.app.get(answer["ids"][0]), await shop.app.get(answer["ids"][-1])
    assert (first.args, last.args) == ({"name": "customer 0"}, {"name": "customer 2499"})
    assert last.tenant == "acme"


async def test_a_line_may_say_everything(penstock: Commands, shop: Shop) -> None:
    lines = [
        {"task": "shop.greet", "args": {"name": "Ada"}, "delay": "10m", "tags": ["slow"]},
        {"task": "shop.fail", "queue": "mail", "idempotency_key": "once"},
        {"task": "shop.fail", "queue": "mail", "idempotency_key": "once"},
    ]
    done = penstock.run(
        "enqueue", "-", "--app", "shop", "--priority", "3", stdin="\n".join(map(json.dumps, lines))
    )
    assert done.stdout == "2 jobs were enqueued, 1 duplicate left out.\n"
    jobs = {job.task: job for job in (await shop.app.list()).jobs}
    greet = jobs["shop.greet"]
    assert (greet.state, greet.tags, greet.priority) == ("scheduled", ("slow",), 3)
    assert jobs["shop.fail"].queue == "mail"


async def test_wrong_line_is_named_with_the_count_of_those_before(
    penstock: Commands, shop: Shop
) -> None:
    lines = '{"name": "Ada"}\n' * 1500 + "{broken\n"
    done = penstock.run("enqueue", "shop.greet", "-", "--json", stdin=lines)
    assert done.returncode == 1
    assert "Line 1501: " in done.stderr
    assert "The first 1,000 jobs had been enqueued by then." in done.stderr
    error = json.loads(done.stdout)["error"]
    assert (error["kind"], error["line"], error["enqueued"]) == ("line_refused", 1501, 1000)
    assert len(error["ids"]) == 1000
    done = penstock.run("enqueue", "-", stdin='{"args": {}}\n')
    assert done.stderr.startswith('Line 1: Each line needs the name of a task as "task".')


def test_bytes_that_are_no_text_are_refused(penstock: Commands) -> None:
    lines = r"printf '{}\n\n\xff\xfe\n' | penstock enqueue shop.greet - --json"
    done = penstock.shell(lines)
    assert done.returncode == 1
    assert done.stderr == "Line 3: It is not UTF-8 text. Nothing was enqueued.\n"
    assert json.loads(done.stdout)["error"]["kind"] == "line_refused"
    done = penstock.shell("""penstock enqueue shop.greet $'{"name": "\\xff"}' --json""")
    assert done.returncode == 2
    assert "The text of the arguments is not UTF-8 text." in done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "usage"


async def test_waiting_shows_the_result(penstock: Commands, shop: Shop) -> None:
    penstock.start("work", "shop")
    done = penstock.run(
        *("enqueue", "shop.greet", '{"name": "Ada"}', "--wait", "--wait-timeout", "30s", "--json")
    )
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert (job["state"], job["result"]) == ("completed", "Hello, Ada")


async def test_waiting_for_a_job_that_fails(penstock: Commands, shop: Shop) -> None:
    penstock.start("work", "shop")
    done = penstock.run("enqueue", "shop.fail", "--app", "shop", "--wait")
    assert done.returncode == 5
    assert "ValueError: no such customer" in done.stdout


async def test_waiting_in_vain(penstock: Commands, shop: Shop) -> None:
    done = penstock.run(
        *("enqueue", "shop.greet", '{"name": "Ada"}', "--wait", "--wait-timeout", "300ms", "--json")
    )
    assert done.returncode == 6
    error = json.loads(done.stdout)["error"]
    [job] = (await shop.app.list()).jobs
    assert (error["kind"], error["id"], job.state) == ("wait_timeout", job.id, "ready")


async def test_a_wait_outlasts_a_database_that_is_away_for_a_moment(
    penstock: Commands, shop: Shop, proxy: Proxy, connection: asyncpg.Connection
) -> None:
    here = ("--wait", "--json", "--database-url", proxy.url)
    waiting = penstock.start("enqueue", "shop.greet", '{"name": "Ada"}', *here)
    await until(lambda: connection.fetchval(LOOKS), what="the wait to begin")
    proxy.refuse()
    async with worker_of(shop.app):
        [job] = (await shop.app.list()).jobs
        await shop.app.wait(job.id, timeout=30)
    assert waiting.process.poll() is None
    proxy.heal()
    assert waiting.end() == 0, waiting.log
    assert json.loads(waiting.output)["state"] == "completed"


async def test_wait_that_loses_the_database_names_the_job(
    penstock: Commands, shop: Shop, proxy: Proxy
) -> None:
    here = ("--wait", "--wait-timeout", "1s", "--json", "--database-url", proxy.url)
    proxy.refuse_after("-- Return jobs by id")  # its first look
    waiting = penstock.start("enqueue", "shop.greet", '{"name": "Ada"}', *here)
    assert waiting.end() == 1
    [job] = (await shop.app.list()).jobs
    error = json.loads(waiting.output)["error"]
    assert (error["kind"], error["id"]) == ("database_unreachable", job.id)
    assert (
        f"Job {job.id} is kept in the database, and goes on when the database is back."
        in waiting.log
    )


async def test_ctrl_c_ends_the_wait_and_not_the_job(penstock: Commands, shop: Shop) -> None:
    waiting = penstock.start("enqueue", "shop.greet", '{"name": "Ada"}', "--wait")
    await until(lambda: "was enqueued" in waiting.log, what="the wait to begin")
    waiting.send(signal.SIGINT)
    assert waiting.end() == 130
    [job] = (await shop.app.list()).jobs
    assert job.state == "ready"
    assert waiting.log.endswith(
        f"The command no longer waits for job {job.id}. The job itself goes on.\n"
    )
    assert "Traceback" not in waiting.log


async def test_a_wait_that_is_interrupted_leaves_the_id_to_programs(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    waiting = penstock.start("enqueue", "shop.greet", '{"name": "Ada"}', "--wait", "--json")
    await until(lambda: connection.fetchval(LOOKS), what="the wait to begin")
    waiting.send(signal.SIGINT)
    assert waiting.end() == 130
    [job] = (await shop.app.list()).jobs
    error = json.loads(waiting.output)["error"]
    assert (error["kind"], error["exit_code"], error["id"]) == ("interrupted", 130, job.id)


async def test_ctrl_c_ends_the_reading_of_lines_at_once(penstock: Commands, shop: Shop) -> None:
    reading = penstock.start("enqueue", "shop.greet", "-", "--json", with_stdin=True)
    lines = reading.process.stdin
    assert lines is not None

    async def stored() -> bool:
        return bool((await shop.app.list()).jobs)

    lines.write('{"name": "Ada"}\n' * 1000)
    lines.flush()
    await until(stored, what="the first batch to be enqueued")
    lines.write('{"name": "Bo"}\n')
    lines.flush()
    await until(lambda: _unread(lines) == 0, what="the next line to be read")
    reading.send(signal.SIGINT)
    assert reading.end() == 130
    assert reading.log == "The first 1,000 jobs had been enqueued by then.\n"
    error = json.loads(reading.output)["error"]
    assert (error["kind"], error["enqueued"], len(error["ids"])) == ("interrupted", 1000, 1000)


def _unread(pipe: IO[str]) -> int:
    """How many bytes of a pipe its reader has not taken yet."""
    answer = fcntl.ioctl(pipe, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])


async def test_a_unique_key_lets_one_job_in_and_names_it(penstock: Commands, shop: Shop) -> None:
    given = ("enqueue", "shop.greet", '{"name": "Ada"}', "--unique-key", "greet:{name}")
    first = json.loads(penstock.run(*given, "--json").stdout)
    assert (await shop.app.get(first["id"])).unique_key == "greet:Ada"
    told = penstock.run(*given).stdout
    assert told == f"Nothing was enqueued: the key greet:Ada belongs to job {first['id']}.\n"
    raised = penstock.run(*given, "--on-conflict", "raise")
    assert (raised.returncode, f"is held by job {first['id']}" in raised.stderr) == (4, True)
    newer = json.loads(penstock.run(*given, "--on-conflict", "supersede", "--json").stdout)
    assert (await shop.app.get(first["id"])).reason == "superseded"
    line = {"task": "shop.greet", "args": {}, "unique": {"key": "greet:Ada"}}
    lines = penstock.run("enqueue", "-", "--json", stdin=json.dumps(line))
    assert json.loads(lines.stdout)["ids"] == [newer["id"]]


async def test_a_rule_that_says_nothing_is_refused(penstock: Commands, shop: Shop) -> None:
    told = penstock.run("enqueue", "shop.greet", "{}", "--on-conflict", "raise").stderr
    assert "--on-conflict can only be used with --unique-key" in told
    for rule, why in (("true", "--app"), ('{"on_conflit": 1}', "on_conflit")):
        line = f'{{"task": "shop.greet", "unique": {rule}}}'
        assert why in penstock.run("enqueue", "-", stdin=line).stderr
