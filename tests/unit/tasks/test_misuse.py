"""What people write instead of a task, and that the error says what to write."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from penstock import Misuse, Penstock
from penstock.tasks import task


class Shop:
    def send(self, order: int) -> None: ...

    @classmethod
    def pack(cls, order: int) -> None: ...

    def __call__(self, order: int) -> None: ...


def add(a: int, b: int) -> int:
    return a + b


def pages() -> Iterator[int]:
    yield 1


def look(ctx, order: int) -> None: ...  # type: ignore[no-untyped-def]


def look_last(order: int, ctx=None) -> None: ...  # type: ignore[no-untyped-def]


def größe(n: int) -> None: ...


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda order: order, 'the lambda at .* has none. .*@app.task\\(name="…"\\)'),
        (größe, r"would have the name '.*größe', .*@app.task\(name="),
        (Shop().send, "a method that is bound to an object"),
        (Shop.pack, "a method that is bound to an object"),
        (Shop.send, "is a method: its first parameter is self"),
        (staticmethod(add), "cannot decorate a @staticmethod"),
        (Shop, "Shop is a class"),
        (Shop(), "got an object of type Shop"),
        (partial(add, 1), r"a functools\.partial"),
        (len, "a Python function, and got len"),
        ("shop.add", r"@app\.task\(name='shop\.add'\)"),
        (task(name="known")(add), "known is a task already"),
        (pages, "pages is a generator"),
        (look, "called ctx and has no annotation.* Write `ctx: Context`"),
        (look_last, "A parameter of look_last is called ctx .* as the first one"),
    ],
)
def test_what_cannot_be_a_task_is_told_with_what_to_write(given: Any, told: str) -> None:
    with pytest.raises(Misuse, match=told) as caught:
        task(given)
    assert "it must be" not in str(caught.value)


@pytest.mark.parametrize("name", ["delay", "apply_async", "send", "defer", "kiq", "enqueue"])
def test_what_other_libraries_call_enqueueing_leads_to_ours(name: str) -> None:
    made = task(name="misuse.add")(add)
    with pytest.raises(AttributeError, match=rf"no {name}: .*app\.enqueue\(add, …\)"):
        getattr(made, name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("apply_async", r"countdown=60 is `delay=60`, eta=… is `run_at=…`"),
        ("delay_on_commit", r"app\.inside\(connection\)\.enqueue\(add, …\)"),
        ("s", r"flow\.add\(add\.prepare\(…\), after=…\)"),
        ("si", r"await app\.start_workflow\(flow\)"),
        ("retry", r"raise Retryable"),
        ("request", r"ctx: Context"),
        ("update_state", r"ctx\.progress"),
    ],
)
def test_what_celery_has_leads_to_what_takes_its_place(name: str, instead: str) -> None:
    made = task(name="misuse.add")(add)
    with pytest.raises(AttributeError, match=rf"no {name}: .*{instead}"):
        getattr(made, name)


@pytest.mark.parametrize(
    ("setting", "instead"),
    [("bind", "ctx: Context"), ("max_retries", "max_attempts=…"), ("colour", "it has args_limit")],
)
def test_unknown_task_setting_is_refused_with_the_right_one(setting: str, instead: str) -> None:
    # With bind=True the function looks like a method.
    with pytest.raises(TypeError, match=rf"no setting '{setting}'.*{instead}"):
        task(**{setting: True})(Shop.send)  # type: ignore[call-overload]


def test_an_attribute_that_nobody_has_is_missed_as_always() -> None:
    made = task(name="misuse.add")(add)
    assert not hasattr(made, "colour")
    with pytest.raises(AttributeError, match=r"^'SyncTask' object has no attribute 'colour'$"):
        made.colour  # noqa: B018


async def fetch(url: str) -> None: ...


def enqueued(app: Penstock, *args: Any, **kwargs: Any) -> None:
    asyncio.run(app.enqueue(*args, **kwargs))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda: "add", "not the text 'add'. Import the task"),
        (lambda: add, r"not add: decorate it with @app\.task"),
        (lambda: fetch("x"), r"not fetch\(…\), which is called already. Pass fetch itself"),
        (lambda: add(1, 2), "not 3. If this is what the task returned, pass the task itself"),
        (lambda: task(name="r")(add).prepare(1, 2), r"with enqueue_many\(\[request\]\)"),
    ],
)
def test_what_is_enqueued_instead_of_a_task_is_named(given: Callable[[], Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        enqueued(Penstock("postgresql://localhost/nowhere"), given())


def test_an_option_among_the_arguments_is_led_to_its_place() -> None:
    made = task(name="misuse.add")(add)
    for name, option in (("delay", "delay"), ("countdown", "delay"), ("eta", "run_at")):
        with pytest.raises(TypeError, match=rf"option {option}, use task\.options\({option}=…\)"):
            made.prepare(1, 2, **{name: 5})  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda: [task(name="misuse.add")(add)], r"write add\.prepare\(…\)"),
        (lambda: [fetch("x")], r"Write fetch\.prepare\(…\) instead of fetch\(…\)"),
        (lambda: None, "not None"),
        (lambda: "add", "not 'add'"),
    ],
)
def test_what_is_enqueued_in_bulk_instead_of_requests_is_named(
    given: Callable[[], Any], told: str
) -> None:
    app = Penstock("postgresql://localhost/nowhere")
    with pytest.raises(TypeError, match=told):
        asyncio.run(app.enqueue_many(given()))


def test_include_and_schedule_name_what_is_no_task() -> None:
    app = Penstock("postgresql://localhost/nowhere")
    given: Any
    for given, told in (("shop.jobs", "import shop.jobs"), (add, "add is no task"), (5, "not 5")):
        with pytest.raises(Misuse, match=told):
            app.include(given)
    for given, told in (("add", "not the text 'add'"), (add, "decorate it")):
        with pytest.raises(Misuse, match=told):
            app.schedule("nightly", given, every=60)
    with pytest.raises(Misuse, match="neither is given"):
        app.schedule("nightly", task(name="n")(pages_of))


def pages_of() -> None: ...
