"""The variables of knowledge, looked at before anything is done with them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache

from penstock.net import guard
from penstock.storage import location
from penstock_apps.knowledge.settings import FETCH, PREFIX, STORAGE, Settings, variable

logger = logging.getLogger("penstock.knowledge")

KNOWN = (
    *map(variable, Settings.__struct_fields__),
    *(f"{STORAGE}_{name}" for name in location.OPTION_NAMES),
    *(f"{FETCH}_{name}" for name in guard.VARIABLE_SUFFIXES),
)


def check(environment: Mapping[str, str] = os.environ) -> Settings:
    """Refuse what cannot be set; warn once of each variable that nobody reads, by a slip perhaps.

    What only some jobs read is refused here, too, and not with the first of them.
    """
    settings = Settings.of(environment)
    location.Options.of(STORAGE, environment)
    guard.Allowed.of(FETCH, environment)
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in KNOWN:
            _warn(name)
    return settings


@cache
def _warn(name: str) -> None:
    # Without what all of them begin with, which makes any two look alike.
    own = {each.removeprefix(PREFIX): each for each in KNOWN}
    nearest = get_close_matches(name.removeprefix(PREFIX).upper(), own, 1)
    meant = f" Did you mean {own[nearest[0]]}?" if nearest else ""
    logger.warning("%s is no setting of knowledge, and is ignored.%s", name, meant)
