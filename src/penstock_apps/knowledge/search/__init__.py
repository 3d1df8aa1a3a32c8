"""Search by meaning and by words, in one ranking."""

from penstock_apps.knowledge.search.hit import Hit
from penstock_apps.knowledge.search.query import Filters, Group, Mode, Query
from penstock_apps.knowledge.search.search import Searching

__all__ = ["Filters", "Group", "Hit", "Mode", "Query", "Searching"]
