from typing import Any

import pytest

from penstock.errors import ConfigError, DuplicateTask, UnknownTask
from penstock.tasks import Registry, task
from tests.unit.tasks import handlers


@task(name="mail.send")
def send(address: str) -> None: ...


@task(name="mail.send")
def other(address: str) -> None: ...


def test_a_task_is_found_by_its_name_and_by_nothing_else() -> None:
    registry = Registry()
    registry.add(send)
    assert registry.get("mail.send") is send
    assert registry.find("mail.send") is send
    assert registry.find("os.system") is None
    assert "mail.send" in registry
    assert registry.names() == ["mail.send"]
    with pytest.raises(UnknownTask, match=r"Did you mean 'mail\.send'"):
        registry.get("mail.snd")


def test_an_internal_task_is_unknown_to_the_public() -> None:
    registry = Registry()
    registry.add(handlers.without_context)
    registry.add_internal(send)
    registry.add(send)
    assert registry.get("mail.send") is send
    assert registry.get_public(handlers.without_context.name) is handlers.without_context
    for name in ("mail.send", "mail.snd"):
        with pytest.raises(UnknownTask) as caught:
            registry.get_public(name)
        known = str(UnknownTask(name, [handlers.without_context.name]))
        assert str(caught.value) == known


def test_the_same_task_may_come_again() -> None:
    registry = Registry()
    registry.add(send, send, send.options(queue="bulk"))
    assert len(registry) == 1


def test_two_tasks_with_one_name_are_refused_with_both_places() -> None:
    registry = Registry()
    registry.add(send)
    with pytest.raises(DuplicateTask) as caught:
        registry.add(other)
    for place in (send.place, other.place):
        assert "test_registry.py:" in place
        assert place in str(caught.value)


def test_a_modules_tasks_are_included_at_once() -> None:
    registry = Registry()
    registry.include(handlers, send, [send])
    assert set(registry) == {
        handlers.with_context,
        handlers.without_context,
        handlers.of_a_later_class,
        handlers.of_a_hidden_class,
        send,
    }


@pytest.mark.parametrize("source", [5, "tests.unit", handlers.unregistered])
def test_what_is_no_task_is_not_included(source: Any) -> None:
    with pytest.raises(ConfigError, match="include"):
        Registry().include(source)


def test_check_finds_broken_annotations() -> None:
    registry = Registry()
    registry.add(send)
    registry.check()
    registry.include(handlers)
    with pytest.raises(ConfigError, match="of_a_hidden_class"):
        registry.check()
