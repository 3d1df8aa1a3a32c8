"""A trace goes from the enqueue through every attempt, wherever that runs."""

import asyncio
import importlib
import sys
from typing import Any

import asyncpg
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from penstock import Batch, Item, Penstock, Retryable, Task, Workflow
from tests.fixtures.worker import worker_of
from tests.otel.conftest import Telemetry
from tests.otel.followed import look, look_in_child, look_in_thread


@pytest.mark.parametrize("task", [look, look_in_thread, look_in_child], ids=lambda task: task.name)
async def test_a_handler_runs_in_the_trace_of_who_enqueued_it(
    app: Penstock, telemetry: Telemetry, task: Task[[], dict[str, str]]
) -> None:
    app.include(task)
    token = context.attach(baggage.set_baggage("customer", "acme"))
    with telemetry.tracer.start_as_current_span("request") as request:
        job = await app.enqueue(task)
    context.detach(token)
    await worker_of(app).drain()

    sent, processed = telemetry.span("send default"), telemetry.span("process default")
    assert sent.parent is not None
    assert processed.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert processed.parent.span_id == sent.context.span_id
    assert [link.context.span_id for link in processed.links] == [sent.context.span_id]
    assert await app.wait(job) == {
        "trace": format_trace_id(request.get_span_context().trace_id),
        "span": format_span_id(processed.context.span_id),
        "customer": "acme",
    }


async def test_spans_speak_the_words_of_the_conventions(
    app: Penstock, telemetry: Telemetry
) -> None:
    app.include(look)
    job = await app.enqueue(look.options(queue="mail", tenant="acme"))
    await worker_of(app, "mail").drain()

    sent, processed = telemetry.span("send mail"), telemetry.span("process mail")
    settled = telemetry.span("settle mail")
    common = {
        "messaging.system": "penstock",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
    }
    assert sent.kind is SpanKind.PRODUCER
    assert sent.attributes == common | {
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "penstock.task": look.name,
    }
    assert processed.kind is SpanKind.CONSUMER
    assert processed.attributes == common | {
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "penstock.task": look.name,
        "penstock.tenant": "acme",
        "penstock.attempt": 1,
        "penstock.state": "completed",
    }
    assert settled.kind is SpanKind.CLIENT
    assert settled.attributes == common | {
        "messaging.operation.type": "settle",
        "messaging.operation.name": "settle",
    }
    assert settled.parent is not None
    assert settled.parent.span_id == processed.context.span_id


async def test_each_attempt_is_a_span_of_its_own_linked_to_its_creator(
    app: Penstock, telemetry: Telemetry
) -> None:
    @app.task(max_attempts=3)
    async def flaky() -> None:
        raise Retryable("secret 42", after=0)

    await app.enqueue(flaky)
    await worker_of(app).drain()

    sent, attempts = telemetry.span("send default"), telemetry.spans("process default")
    assert [span.attributes["penstock.attempt"] for span in attempts if span.attributes] == [
        *(1, 2, 3)
    ]
    assert {span.links[0].context.span_id for span in attempts} == {sent.context.span_id}
    assert {span.context.trace_id for span in attempts} == {sent.context.trace_id}
    assert {span.status.status_code for span in attempts} == {StatusCode.ERROR}
    last = attempts[-1].attributes
    assert last is not None
    assert last["error.type"] == "penstock.errors.Retryable"
    assert last["penstock.state"] == "failed"
    # What an error says may be private.
    assert "secret" not in "".join(span.to_json() for span in attempts)


async def test_a_death_of_a_child_process_is_told_by_the_worker(
    app: Penstock, telemetry: Telemetry
) -> None:
    from tests.otel.dying import die

    app.include(die)
    await app.enqueue(die)
    await worker_of(app).drain()

    processed = telemetry.span("process default")
    assert processed.attributes is not None
    assert processed.attributes["error.type"] == "Exited"


async def test_jobs_that_are_enqueued_together_share_a_span(
    app: Penstock, telemetry: Telemetry
) -> None:
    app.include(look)
    await app.enqueue_many([look.prepare(), look.options(queue="mail").prepare()])
    await worker_of(app, ["default", "mail"]).drain()

    sent = telemetry.span("send")
    assert sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 2
    for name in ("process default", "process mail"):
        parent = telemetry.span(name).parent
        assert parent is not None
        assert parent.span_id == sent.context.span_id


async def test_an_enqueue_that_fails_says_so_without_its_message(
    app: Penstock, telemetry: Telemetry, connection: asyncpg.Connection
) -> None:
    app.include(look)
    async with connection.transaction():
        await connection.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await app.inside(connection).enqueue(look)

    sent = telemetry.span("send default")
    assert sent.status.status_code is StatusCode.ERROR
    assert sent.status.description == "ReadOnlySQLTransactionError"
    assert sent.events == ()


async def test_items_that_share_a_call_have_a_span_each(
    app: Penstock, telemetry: Telemetry
) -> None:
    @app.task(batch=Batch(size=3), max_attempts=1)
    async def double(items: list[Item[int]]) -> list[int | ValueError]:
        return [item.value * 2 if item.value else ValueError() for item in items]

    await app.enqueue_many(double.prepare(number) for number in range(3))
    await worker_of(app).drain()

    sent, attempts = telemetry.span("send default"), telemetry.spans("process default")
    assert [span.links[0].context.span_id for span in attempts] == [sent.context.span_id] * 3
    states = [span.attributes["penstock.state"] for span in attempts if span.attributes]
    assert sorted(map(str, states)) == ["completed", "completed", "failed"]


async def test_what_a_handler_enqueues_is_in_the_same_trace(
    app: Penstock, telemetry: Telemetry
) -> None:
    @app.task
    async def outer() -> None:
        await app.enqueue(look)

    app.include(look)
    await app.enqueue(outer)
    await worker_of(app).drain()

    assert len({span.context.trace_id for span in telemetry.spans("process default")}) == 1
    assert len(telemetry.spans("send default")) == 2


async def test_code_that_does_not_await_is_followed_too(
    app: Penstock, telemetry: Telemetry
) -> None:
    app.include(look)
    with telemetry.tracer.start_as_current_span("request") as request:
        await asyncio.to_thread(app.sync.enqueue, look)

    parent = telemetry.span("send default").parent
    assert parent is not None
    assert parent.span_id == request.get_span_context().span_id


async def test_a_workflow_and_a_transaction_are_followed_too(
    app: Penstock, telemetry: Telemetry, connection: asyncpg.Connection
) -> None:
    app.include(look)
    flow = Workflow("import")
    flow.chain(look.prepare(), look.prepare())
    await app.start_workflow(flow)
    async with connection.transaction():
        await app.inside(connection).enqueue(look)
        with telemetry.tracer.start_as_current_span("by hand"):
            sql, parameters = app.statement(look.prepare())
        await connection.fetchrow(sql, *parameters)
    await worker_of(app).drain()

    creators = {span.context.span_id for span in telemetry.spans("send default")}
    creators.add(telemetry.span("by hand").context.span_id)
    linked = [span.links[0].context.span_id for span in telemetry.spans("process default")]
    assert len(linked) == 4
    assert set(linked) == creators


async def test_the_metadata_of_a_job_stays_as_it_was_but_for_one_key(app: Penstock) -> None:
    app.include(look)
    given: dict[str, Any] = {"customer": {"id": 7}}
    job = await app.enqueue(look.options(meta=given))

    meta = (await app.get(job)).meta
    assert meta.pop("otel").keys() == {"traceparent"}
    assert meta == given


async def test_a_job_that_carries_nonsense_runs_in_a_trace_of_its_own(
    app: Penstock, telemetry: Telemetry, connection: asyncpg.Connection
) -> None:
    app.include(look)
    await app.enqueue(look)
    await connection.execute("""UPDATE penstock.job SET meta = '{"otel": ["x", 1]}'""")
    await worker_of(app).drain()

    assert telemetry.span("process default").parent is None


async def test_an_app_that_is_not_followed_sends_nothing(
    app: Penstock, telemetry: Telemetry
) -> None:
    app.include(look)
    app.trace_with(None)
    job = await app.enqueue(look)
    await worker_of(app).drain()

    assert (await app.get(job)).meta == {}
    assert telemetry.spans("process default") == []


async def test_without_an_sdk_nothing_is_added(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.integrations.otel import instrument

    # A page of the docs, run by this process before, has set up an SDK for all of it.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    app = Penstock(database.url, include=[look])
    instrument(app)
    async with app:
        job = await app.enqueue(look)
        await worker_of(app).drain()
        assert (await app.get(job)).meta == {}


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("penstock.integrations.otel")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[otel\]' in a clone"):
        importlib.import_module("penstock.integrations.otel")


async def test_metrics_count_what_this_process_did(app: Penstock, telemetry: Telemetry) -> None:
    @app.task(max_attempts=1)
    async def fail() -> None:
        raise ValueError

    app.include(look)
    await app.enqueue_many([look.prepare(), look.prepare()])
    await app.enqueue(fail)
    await worker_of(app).drain()

    default = ("queue", "default")
    assert telemetry.points("penstock.jobs.enqueued") == {
        (default, ("task", look.name)): 2,
        (default, ("task", fail.name)): 1,
    }
    assert telemetry.points("penstock.jobs.finished") == {
        (("outcome", "completed"), default, ("task", look.name)): 2,
        (("outcome", "failed"), default, ("task", fail.name)): 1,
    }
    assert telemetry.points("penstock.job.duration")[default, ("task", look.name)] == 2
    assert telemetry.points("penstock.job.wait")[default, ("task", look.name)] == 2
