"""A file on disk in, its text out: no database, no network; a format loads with its first file."""

from penstock_apps.knowledge.extract.detect import sniff
from penstock_apps.knowledge.extract.extract import extract
from penstock_apps.knowledge.extract.limits import Limits

__all__ = ["Limits", "extract", "sniff"]
