"""Thousands of files in one request, received one after the other."""

from penstock_apps.knowledge.upload.form import (
    Field,
    Item,
    Limits,
    Oversized,
    Received,
    UploadRefused,
    workspace,
)
from penstock_apps.knowledge.upload.receiving import receive

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
