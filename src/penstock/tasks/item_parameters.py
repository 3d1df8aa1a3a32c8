"""The one argument of a job whose handler takes many jobs: what its items hold."""

from inspect import Parameter
from typing import Any, Final, get_args, get_origin

from penstock.errors import Misuse
from penstock.tasks.batch_context import BatchContext
from penstock.tasks.item import Item
from penstock.tasks.parameters import BY_POSITION, Parameters

# The name that the argument is stored by, whatever the handler calls its list.
ITEM: Final = "item"
SHAPE: Final = "items: list[Item[…]], after an optional ctx: BatchContext, and nothing else"


class ItemParameters(Parameters):
    """Says that a job has one argument, `item`, of the type that the handler's items hold."""

    context = BatchContext

    def _arguments(self, given: list[Parameter]) -> list[Parameter]:
        if len(given) != 1 or given[0].kind not in BY_POSITION:
            shown = ", ".join(str(one) for one in given)
            raise Misuse(f"{self.task}({shown}) has a batch, so it takes {SHAPE}.")
        self._items = given[0]
        return [Parameter(ITEM, Parameter.POSITIONAL_OR_KEYWORD)]

    def hints(self) -> dict[str, Any]:
        hint = self._hint(self._items)
        if hint is Any or hint is list:
            return {ITEM: Any}
        kinds = get_args(hint)
        is_list = isinstance(get_origin(hint), type) and issubclass(list, get_origin(hint))
        if not is_list or len(kinds) != 1 or (get_origin(kinds[0]) or kinds[0]) is not Item:
            raise Misuse(f"{self.task}({self._items}) has a batch, so it takes {SHAPE}.")
        return {ITEM: next(iter(get_args(kinds[0])), Any)}
