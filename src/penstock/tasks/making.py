"""Makes the task of a function: of the class that says how it is called."""

import inspect
from collections.abc import Callable
from typing import Any

from penstock.tasks.arguments import Arguments
from penstock.tasks.batch_task import BATCH_KINDS
from penstock.tasks.functions import check_function
from penstock.tasks.item_parameters import ItemParameters
from penstock.tasks.limits import check_keys
from penstock.tasks.parameters import Parameters
from penstock.tasks.settings import TaskValues, check_names, settings_of
from penstock.tasks.task import AsyncContextTask, AsyncTask, SyncContextTask, SyncTask, Task
from penstock.tasks.unique_key import check_args

KINDS: dict[tuple[bool, bool], type[Task[..., Any]]] = {
    (kind.is_async, kind.takes_context): kind
    for kind in (AsyncTask, AsyncContextTask, SyncTask, SyncContextTask)
}


def make_task(fn: Callable[..., Any], values: TaskValues) -> Task[..., Any]:
    """Return the task of a function, of the class that says how it is called."""
    check_names(values)
    check_function(fn)
    settings = settings_of(fn, values)
    reads, kinds = (Parameters, KINDS) if settings.batch is None else (ItemParameters, BATCH_KINDS)
    parameters = reads(settings.name, fn)
    check_keys(settings.defaults, parameters)
    check_args(settings.defaults.unique, parameters)
    arguments = Arguments(
        parameters, settings.args_version, settings.upcasters, settings.args_limit
    )
    return kinds[inspect.iscoroutinefunction(fn), parameters.takes_context](fn, settings, arguments)
