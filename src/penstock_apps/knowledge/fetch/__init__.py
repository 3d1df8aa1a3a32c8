"""A page of the public web, fetched into a file."""

from penstock_apps.knowledge.fetch.allowed import Allowed
from penstock_apps.knowledge.fetch.errors import FetchFailed, FetchRefused
from penstock_apps.knowledge.fetch.fetched import Fetched
from penstock_apps.knowledge.fetch.fetching import fetch
from penstock_apps.knowledge.fetch.foreseeing import foresee
from penstock_apps.knowledge.fetch.limits import Limits

__all__ = ["Allowed", "FetchFailed", "FetchRefused", "Fetched", "Limits", "fetch", "foresee"]
