"""Thousands of files in one request, received one after the other."""

from penstock_apps.knowledge.upload.errors import UploadRefused
from penstock_apps.knowledge.upload.form import Item
from penstock_apps.knowledge.upload.limits import Limits
from penstock_apps.knowledge.upload.received import Field, Oversized, Received
from penstock_apps.knowledge.upload.receiving import receive
from penstock_apps.knowledge.upload.workspace import workspace

__all__ = [
    "Field",
    "Item",
    "Limits",
    "Oversized",
    "Received",
    "UploadRefused",
    "receive",
    "workspace",
]
