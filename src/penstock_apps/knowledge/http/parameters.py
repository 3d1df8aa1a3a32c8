"""The parameters of an address: one that its route does not know is refused, not ignored."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from fastapi import Request

from penstock.service.problems import Problem

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant


def parameters_of(route: Dependant) -> frozenset[str]:
    """What a route can be asked with, by itself and by what it depends on."""
    own = frozenset(each.alias for each in route.query_params)
    return own.union(*map(parameters_of, route.dependencies))


def expect_known(request: Request, known: Set[str]) -> None:
    """A Problem that names the parameters which are not known, and those that there are."""
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        there = f"there are: {', '.join(sorted(known))}." if known else "there are none."
        fields = [(f"query.{name}", f"It is no parameter; {there}") for name in unknown]
        told = f"There is no parameter {', '.join(map(repr, unknown))}; {there}"
        raise Problem(422, "does-not-fit", told, fields=fields)
