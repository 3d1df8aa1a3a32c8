"""Looking at jobs: one, many, by filter."""

import pytest

from penstock import Context, Penstock, Progress
from penstock.errors import ConfigError, JobNotFound
from tests.fixtures.worker import worker_of

GARBAGE = ["", "x", "-1", "1.5", "1 ", "9" * 30, "٣", "a\0b", "0"]


@pytest.fixture
def note(app: Penstock):
    @app.task(name="note")
    async def note(text: str = "") -> str:
        return text

    return note


async def test_an_id_that_is_none_belongs_to_no_job(app: Penstock) -> None:
    for id in GARBAGE:
        assert await app.find(id) is None
        for call in (app.get, app.cancel, app.retry, app.delete, app.wait):
            with pytest.raises(JobNotFound):
                await call(id)


async def test_garbage_among_ids_is_left_out(app: Penstock, note) -> None:
    job = await app.enqueue(note)
    assert list(await app.states([*GARBAGE, job.id])) == [job.id]


async def test_a_final_job_is_found_with_its_result(app: Penstock, note) -> None:
    enqueued = await app.enqueue(note, "done")
    await worker_of(app).drain(seconds=10)
    job = await app.get(enqueued)
    assert (job.state, job.result, job.attempt) == ("completed", "done", 1)
    assert job.finished_at is not None
    assert job.is_final


async def test_the_states_of_a_thousand_jobs_come_in_one_call(app: Penstock, note) -> None:
    done = await app.enqueue(note, "first")
    await worker_of(app).drain(seconds=10)
    waiting = await app.enqueue_many(note.options(delay=60).prepare() for _ in range(999))
    states = await app.states([done, *waiting])
    assert len(states) == 1000
    assert states[done.id].state == "completed"
    assert states[done.id].is_final
    assert {states[one.id].state for one in waiting} == {"scheduled"}


async def test_more_than_a_thousand_states_are_refused(app: Penstock) -> None:
    with pytest.raises(ConfigError, match="1000"):
        await app.states([str(n) for n in range(1001)])


async def test_jobs_that_are_not_found_have_no_state(app: Penstock) -> None:
    assert await app.states(["123456"]) == {}


async def test_jobs_are_listed_newest_first_in_pages(app: Penstock, note) -> None:
    enqueued = await app.enqueue_many(note.prepare(str(n)) for n in range(5))
    first = await app.list(limit=2)
    second = await app.list(limit=2, after=first.after)
    third = await app.list(limit=2, after=second.after)
    pages = [[job.id for job in page.jobs] for page in (first, second, third)]
    ids = [one.id for one in reversed(enqueued)]
    assert pages == [ids[:2], ids[2:4], ids[4:]]
    assert third.after is None


async def test_pages_do_not_shift_when_jobs_are_added(app: Penstock, note) -> None:
    enqueued = await app.enqueue_many(note.prepare(str(n)) for n in range(4))
    first = await app.list(limit=2)
    await app.enqueue(note, "newer")
    second = await app.list(limit=2, after=first.after)
    assert [job.id for job in second.jobs] == [enqueued[1].id, enqueued[0].id]


async def test_live_and_final_jobs_are_listed_together(app: Penstock, note) -> None:
    final = await app.enqueue(note)
    await worker_of(app).drain(seconds=10)
    live = await app.enqueue(note)
    assert [job.id for job in (await app.list()).jobs] == [live.id, final.id]


async def test_each_filter_narrows_the_list(app: Penstock, note) -> None:
    @app.task(name="other")
    async def other() -> None: ...

    cases = {
        "queue": await app.enqueue(note.options(queue="mail")),
        "tenant": await app.enqueue(note.options(tenant="acme")),
        "subject": await app.enqueue(note.options(subject="document:42")),
        "tag": await app.enqueue(note.options(tags=["nightly", "large"])),
        "task": await app.enqueue(other),
        "state": await app.enqueue(note.options(delay=60)),
    }
    filters = {
        "queue": "mail",
        "tenant": "acme",
        "subject": "document:42",
        "tag": "large",
        "task": other,
        "state": "scheduled",
    }
    for name, value in filters.items():
        page = await app.list(**{name: value})
        assert [job.id for job in page.jobs] == [cases[name].id], name
    by_name = await app.list(task="other")
    assert [job.id for job in by_name.jobs] == [cases["task"].id]
    both = await app.list(state=["ready", "scheduled"])
    assert len(both.jobs) == 6
    assert (await app.list(queue="mail", tenant="acme")).jobs == ()


@pytest.mark.parametrize("limit", [0, 1001])
async def test_a_page_has_its_limits(app: Penstock, limit: int) -> None:
    with pytest.raises(ConfigError, match="limit"):
        await app.list(limit=limit)


@pytest.mark.parametrize(
    "given",
    [
        {"state": "bogus"},
        {"state": ["ready", "done"]},
        {"state": [None]},
        {"tenant": "\0"},
        {"subject": "\ud800"},
        {"queue": 5},
        {"task": len},
        {"tag": ["nightly"]},
    ],
    ids=str,
)
async def test_a_filter_that_no_job_can_pass_is_named(app: Penstock, given) -> None:
    [name] = given
    with pytest.raises(ConfigError, match=f"The argument {name} is"):
        await app.list(**given)


KEPT_PLANS = """
SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '-- Return jobs by id%'
"""


async def test_repeated_reads_reuse_their_plans(app: Penstock, note) -> None:
    """A plan looks at each day of the history: it costs far more than the look."""
    job = await app.enqueue(note)
    for _ in range(20):
        await app.get(job)
    # The connection that was used last is the next to be used.
    assert await (await app.pool()).fetchval(KEPT_PLANS) > 10


async def test_a_job_has_the_progress_that_its_handler_reported_last(app: Penstock) -> None:
    @app.task(max_attempts=1)
    async def walk(ctx: Context, total: float | None, message: str | None) -> None:
        ctx.progress(1, total, "off")
        ctx.progress(2, total, message)
        if total == 0.5:
            raise ValueError("no way")

    told: list[tuple[float | None, str | None, Progress]] = [
        (4, "half way", Progress(done=2, total=4, message="half way")),
        (None, None, Progress(done=2)),
        (0.5, None, Progress(done=2, total=0.5)),
    ]
    jobs = [await app.enqueue(walk, total, message) for total, message, _ in told]
    later = await app.enqueue(walk.options(delay=60), 1, "later")
    assert (await app.get(jobs[0])).progress is None
    await worker_of(app).drain(seconds=30)
    assert [(await app.get(job)).progress for job in jobs] == [progress for *_, progress in told]
    listed = {job.id: job.progress for job in (await app.list()).jobs}
    assert [listed[job.id] for job in jobs] == [progress for *_, progress in told]
    assert listed[later.id] is None
    [failed] = (await app.dead_letters()).jobs
    assert failed.progress == Progress(done=2, total=0.5)
    assert (await app.get(jobs[0])).progress.share == 0.5


async def test_progress_that_is_no_number_is_none(app: Penstock) -> None:
    """JSON, and so the HTTP API, has no word for it."""

    @app.task
    async def lose_count(ctx: Context, done: str, total: str) -> None:
        ctx.progress(float(done), float(total))

    jobs = [await app.enqueue(lose_count, *told) for told in (("nan", "1"), ("1", "inf"))]
    await worker_of(app).drain(seconds=30)
    assert [(await app.get(job)).progress for job in jobs] == [None, Progress(done=1)]
