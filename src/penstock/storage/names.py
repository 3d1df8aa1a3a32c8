"""Where a file stands in the storage: names that only the server makes.

    acme/3f/a9/3fa9…   tenant, two levels of folders, SHA-256 of the content

No name of a file, path or anything else that a client says becomes part of it.
"""

from __future__ import annotations

import re
from hashlib import sha256

DIGEST_BYTES = 32
LONGEST_FOLDER = 100

# Small letters only: some file systems take `A` and `a` for the same.
PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
NAME = re.compile(r"[a-z0-9_-]+/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}")
# What a folder has while a file is copied into it.
PART = re.compile(rf"{NAME.pattern}\.part-[0-9a-f]{{16}}")
# Where each database that stores here says so. No tenant has this folder: see `folder_of`.
MARKS = "_penstock/databases"


def folder_of(tenant: str) -> str:
    """The folder of one tenant: no two have the same, and none can leave it."""
    if not tenant:
        raise ValueError("A tenant's name is not empty.")
    raw = tenant.encode()
    folder = "".join(chr(byte) if byte in PLAIN else f"_{byte:02x}" for byte in raw)
    # After an underscore a letter is written in two hex digits, so none of them is a hyphen.
    return folder if len(folder) <= LONGEST_FOLDER else f"_-{sha256(raw).hexdigest()}"


def tenant_of(folder: str) -> str | None:
    """The tenant whose folder this is; None for that of a long name, and for what is no folder."""
    try:
        raw = re.sub("_([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), folder)
        tenant = raw.encode("latin-1").decode()
    except UnicodeError:
        return None
    return tenant if tenant and folder_of(tenant) == folder else None


def object_name(tenant: str, digest: bytes) -> str:
    """The name of a content of one tenant."""
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"A SHA-256 has {DIGEST_BYTES} bytes, not {len(digest)}.")
    content = digest.hex()
    return f"{folder_of(tenant)}/{content[:2]}/{content[2:4]}/{content}"


def belongs_to(name: str, tenant: str) -> bool:
    """Whether this is a name that a file of this tenant can have."""
    return bool(NAME.fullmatch(name)) and name.startswith(f"{folder_of(tenant)}/")


def is_object(name: str) -> bool:
    """Whether this is a name that a file of some tenant can have."""
    return bool(NAME.fullmatch(name))


def is_part(name: str) -> bool:
    """Whether this is a file that was being written when its process was killed."""
    return bool(PART.fullmatch(name))


def digest_of(name: str) -> bytes:
    """The content that a name stands for."""
    return bytes.fromhex(name.rpartition("/")[2])
