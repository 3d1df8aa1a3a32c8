"""What Prometheus scrapes."""

import asyncio

import asyncpg
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import Penstock
from penstock.service import Service, operations
from penstock.service import metrics as service_metrics
from penstock.service.hosts import Entry
from tests.fixtures.proxy import Proxy
from tests.fixtures.service import OpenDoor, asked, document, service_of, serving
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of
from tests.insights.rows import lease, put, run

Sample = tuple[str, frozenset[tuple[str, str]]]


async def scraped(service: Service, **headers: str) -> dict[Sample, float]:
    """The samples by name and labels."""
    async with asked(service.asgi, **headers) as http:
        answer = await http.get("http://localhost/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def of(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


async def test_the_queues_and_workers_as_the_database_knows_them(
    service: Service, connection: asyncpg.Connection
) -> None:
    first = await put(connection, jobs=3, age=50)
    await put(connection, queue="mail")
    await run(connection, await lease(connection, "a"), first)
    await connection.execute(
        "SELECT penstock.enqueue('later', queue => 'imports', run_at => now() + interval '1 hour')"
    )

    samples = await scraped(service)

    assert samples[of("penstock_queue_depth", queue="imports", state="ready")] == 2
    assert samples[of("penstock_queue_depth", queue="imports", state="running")] == 1
    assert samples[of("penstock_queue_depth", queue="imports", state="scheduled")] == 1
    assert samples[of("penstock_queue_depth", queue="mail", state="ready")] == 1
    oldest = samples[of("penstock_queue_oldest_ready_age_seconds", queue="imports")]
    assert 50 <= oldest < 100
    assert samples[of("penstock_workers")] == 1
    assert samples[of("penstock_database_up")] == 1


async def test_queues_that_are_not_counted_are_told_of(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_metrics, "MAX_QUEUES", 2)
    complete = of("penstock_queue_depth_complete")
    for queue in ("a", "b"):
        await put(connection, queue=queue)
    async with service_of(app) as service:
        assert (await scraped(service))[complete] == 1
    await put(connection, queue="c")
    async with service_of(app) as service:
        assert (await scraped(service))[complete] == 0


async def test_what_this_process_did(service: Service, app: Penstock) -> None:
    @app.task(name="greet")
    async def greet() -> None: ...

    @app.task(name="fail", max_attempts=1)
    async def fail() -> None:
        raise ValueError

    await app.enqueue_many([greet.prepare(), greet.prepare()])
    key = greet.options(idempotency_key="once")
    await app.enqueue(key)
    await app.enqueue(key)
    await app.enqueue(fail)
    await worker_of(app).drain()

    samples = await scraped(service)

    task = {"queue": "default", "task": "greet"}
    assert samples[of("penstock_jobs_enqueued_total", **task)] == 3
    assert samples[of("penstock_jobs_finished_total", **task, outcome="completed")] == 3
    failed = of("penstock_jobs_finished_total", queue="default", task="fail", outcome="failed")
    assert samples[failed] == 1
    assert samples[of("penstock_job_duration_seconds_count", **task)] == 3
    assert samples[of("penstock_job_wait_seconds_count", **task)] == 3
    assert 0 < samples[of("penstock_job_wait_seconds_sum", **task)] < 60
    assert samples[of("process_start_time_seconds")] > 0


async def test_the_database_is_asked_once_in_five_seconds(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert service_metrics.CACHE_S >= 5
    monkeypatch.setattr(service_metrics, "CACHE_S", 60.0)
    depth = of("penstock_queue_depth", queue="imports", state="ready")
    await put(connection)
    async with service_of(app) as service:
        assert (await scraped(service))[depth] == 1
        await put(connection)

        told = await asyncio.gather(*(scraped(service) for _ in "ab"))
        assert [each[depth] for each in told] == [1, 1]


async def test_while_the_database_is_away_anybody_is_told_that_alone(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "READINESS_CACHE_S", 0.0)
    monkeypatch.setattr(service_metrics, "CACHE_S", 0.0)
    async with Service(app := Penstock(proxy.url)) as service:
        key = await app.create_key("prometheus", scopes=["read"])
        with_key = {"authorization": f"Bearer {key.secret}"}
        transport = httpx.ASGITransport(service.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert (await http.get("/metrics", headers=with_key)).status_code == 200
            assert (await http.get("/metrics")).status_code == 401
            proxy.refuse()
            # A server remembers a key for some seconds; that must make no difference.
            for headers in (with_key, {}, {"authorization": "Bearer pk_nobody"}):
                answer = await http.get("/metrics", headers=headers)
                assert answer.status_code == 503
                lines = answer.text.splitlines()
                assert [line for line in lines if line[0] != "#"] == ["penstock_database_up 0.0"]
                told = await http.get("/api/v1/health", headers=headers)
                assert (told.status_code, told.json()["about"]) == (
                    503,
                    {"penstock_database_up": 0},
                )
            proxy.heal()

            async def is_back() -> bool:
                return (await http.get("/metrics", headers=with_key)).status_code == 200

            await until(is_back)
            assert (await http.get("/api/v1/health", headers=with_key)).status_code in (200, 503)
            assert (await http.get("/api/v1/health")).status_code == 401


async def test_queues_beyond_a_bound_are_summed(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_metrics, "CACHE_S", 0.0)

    @app.task(name="greet", queue="zz-declared")
    async def greet() -> None: ...

    async with service_of(app) as service:
        await app.enqueue(greet)
        await app.enqueue_many(
            greet.options(queue=f"free-{number:03}").prepare() for number in range(250)
        )
        await app.worker([f"free-{number:03}" for number in range(2)]).drain()
        await app.enqueue_many(
            greet.options(queue=f"free-{number:03}").prepare() for number in range(250)
        )
        await app.set_queue("zz-in-the-database", late_after=60)
        nightly = greet.options(queue="zz-scheduled").prepare()
        await app.set_schedule("nightly", nightly, cron="0 3 * * *")
        await scraped(service)
        # They are declared by now, if later than all the free names were used.
        for name in ("zz-in-the-database", "zz-scheduled"):
            await app.enqueue(greet.options(queue=name))
        samples = await scraped(service)

    for name in ("penstock_queue_depth", "penstock_jobs_enqueued_total"):
        series = {label: value for (metric, label), value in samples.items() if metric == name}
        named = {dict(label)["queue"] for label in series}
        assert len(named) == 200 + 3 + 1
        assert {"zz-declared", "zz-in-the-database", "zz-scheduled", "(other)"} <= named
        assert "free-000" in named
        # Nothing is lost in the sum.
        assert sum(series.values()) == (501 if name == "penstock_queue_depth" else 503)


async def test_metrics_are_for_those_who_may_read_all(app: Penstock) -> None:
    async with Service(app, door=OpenDoor()) as service:
        for headers in ({"scopes": "enqueue"}, {"tenant": "acme"}):
            async with asked(service.asgi, **headers) as http:
                assert (await http.get("http://localhost/metrics")).status_code == 403
        assert await scraped(service, scopes="read")


async def test_metrics_are_closed_to_localhost_by_default(app: Penstock) -> None:
    async with (
        Service(app) as shut,
        serving(shut) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as http,
    ):
        assert (await http.get("/metrics")).status_code == 401


async def test_metrics_that_are_opened_are_so_for_this_machine_alone(app: Penstock) -> None:
    async with Service(app, open_metrics=True) as service:
        async with serving(service) as url, httpx.AsyncClient(base_url=url, timeout=30) as http:
            assert (await http.get("/metrics")).status_code == 200
        elsewhere = httpx.ASGITransport(service.asgi, client=("192.0.2.7", 1234))
        async with httpx.AsyncClient(transport=elsewhere, base_url="http://localhost") as http:
            assert (await http.get("/metrics")).status_code == 401


async def test_caller_behind_a_local_proxy_is_not_localhost(app: Penstock) -> None:
    entry = Entry(proxies=("127.0.0.1",))
    async with (
        Service(app, entry=entry, open_metrics=True) as service,
        serving(service) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as http,
    ):
        forwarded = await http.get("/metrics", headers={"x-forwarded-for": "192.0.2.7"})
        assert forwarded.status_code == 401


async def test_a_service_that_has_ended_counts_no_more(app: Penstock) -> None:
    async with service_of(app):
        pass
    from penstock.telemetry import JobFinished, JobsEnqueued

    assert not app.events.has_subscribers(JobsEnqueued)
    assert not app.events.has_subscribers(JobFinished)


def test_metrics_are_described() -> None:
    answers = document()["paths"]["/metrics"]["get"]["responses"]

    assert set(answers) >= {"200", "401", "403", "503"}
    assert set(answers["200"]["content"]) == {"text/plain", "application/openmetrics-text"}


async def test_who_asks_for_openmetrics_gets_it(http: httpx.AsyncClient) -> None:
    kind = "application/openmetrics-text"
    answer = await http.get("http://localhost/metrics", headers={"accept": kind})

    assert answer.headers["content-type"].startswith(kind)
    assert answer.text.endswith("# EOF\n")
