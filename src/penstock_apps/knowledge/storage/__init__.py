"""Where the files stand: a folder, S3, Google Cloud Storage or Azure."""

from penstock_apps.knowledge.storage.errors import (
    FileChanged,
    LinkRefused,
    ObjectDamaged,
    ObjectMissing,
    StorageDown,
)
from penstock_apps.knowledge.storage.links import Link, Links
from penstock_apps.knowledge.storage.names import belongs_to, folder_of, object_name
from penstock_apps.knowledge.storage.opened import Opened
from penstock_apps.knowledge.storage.options import Options
from penstock_apps.knowledge.storage.storage import Given, Storage, Stored

__all__ = [
    "FileChanged",
    "Given",
    "Link",
    "LinkRefused",
    "Links",
    "ObjectDamaged",
    "ObjectMissing",
    "Opened",
    "Options",
    "Storage",
    "StorageDown",
    "Stored",
    "belongs_to",
    "folder_of",
    "object_name",
]
