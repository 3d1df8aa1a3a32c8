"""A recipe as somebody has written it, and what is wrong with it in words."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.inspect import LiteralType, StructType, type_info

from penstock.service.problems import Problem
from penstock_apps.knowledge.store.bases import Recipe


def recipe_from(given: dict[str, Any]) -> Recipe:
    """The recipe; a Problem if it does not fit."""
    for place, struct in _parts().items():
        known = [field.encode_name for field in struct.fields]
        for name in given[place].keys() - known:
            raise _misfit(f"{place}.{name}", f"Is not known; there are {', '.join(known)}")
    try:
        return msgspec.convert(given, Recipe)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        raise _misfit(place.rstrip("`"), _said(what, place.rstrip("`"))) from error


def _said(what: str, place: str) -> str:
    """What msgspec says; of a choice it does not say what there is."""
    part, _, name = place.partition(".")
    fields = _parts()[part].fields if part in _parts() else ()
    for field in fields:
        if field.encode_name == name and isinstance(field.type, LiteralType):
            return f"Should be one of {', '.join(map(str, field.type.values))}"
    return what


def _parts() -> dict[str, StructType]:
    recipe = type_info(Recipe)
    assert isinstance(recipe, StructType)
    return {
        field.encode_name: field.type
        for field in recipe.fields
        if isinstance(field.type, StructType)
    }


def _misfit(place: str, said: str) -> Problem:
    return Problem(422, "does-not-fit", f"{place}: {said}.", fields=[(place, said)])
