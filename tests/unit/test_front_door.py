"""What a program needs of Penstock is found in `penstock` itself."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock import errors

CALLED = (
    penstock.Penstock,
    penstock.SyncPenstock,
    penstock.BatchHandle,
    penstock.LocalPool,
    penstock.Context,
    penstock.SyncContext,
    penstock.BatchContext,
    penstock.SyncBatchContext,
    penstock.Item,
    penstock.Worker,
)
STANDARD = {
    *("Any", "AsyncIterator", "Awaitable", "Callable", "Collection", "Coroutine", "Iterable"),
    *("Iterator", "Mapping", "Never", "None", "NoneType", "Self", "Sequence", "Union", "Unpack"),
    *("AbstractAsyncContextManager", "AbstractContextManager", "EllipsisType", "Logger"),
    *("LoggerAdapter", "ModuleType", "Path", "TracebackType"),
}
# For those who build on Penstock itself: `app.store`, `app.on(…)`.
INNER = {"Executor", "Pool", "Store", "Tracing"}


def names_in(kind: type) -> Iterator[tuple[str, str]]:
    """The names in the annotations of public methods, with where each is."""
    for name, member in inspect.getmembers(kind):
        if name.startswith("_"):
            continue
        method: Any = member.fget if isinstance(member, property) else member
        annotations = getattr(inspect.unwrap(method), "__annotations__", {})
        for annotation in annotations.values():
            written = annotation if isinstance(annotation, str) else repr(annotation)
            for word in re.findall(r"\b[A-Z][a-z]\w*", written):
                yield word, f"{kind.__name__}.{name}"


@pytest.mark.parametrize("kind", CALLED, ids=lambda kind: kind.__name__)
def test_what_calls_take_and_return_is_exported(kind: type) -> None:
    known = STANDARD | INNER | set(penstock.__all__)
    assert not {word: where for word, where in names_in(kind) if word not in known}


def test_what_calls_raise_is_exported() -> None:
    raised = {name for name, each in vars(errors).items() if inspect.isclass(each)}
    raised = {name for name in raised if issubclass(getattr(errors, name), errors.PenstockError)}
    assert raised <= set(penstock.__all__)


def test_the_front_door_is_in_order() -> None:
    assert list(penstock.__all__) == sorted(penstock.__all__)


def test_every_name_that_it_offers_is_there() -> None:
    assert [name for name in penstock.__all__ if not hasattr(penstock, name)] == []
