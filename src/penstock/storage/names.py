"""Make and parse the names of stored files.

    acme/3f/a9/3fa9…   tenant, two levels of folders, SHA-256 of the content

Only the server makes these names. Nothing that a client sends, such as a file's name, becomes part
of them.
"""

from __future__ import annotations

import re
from hashlib import sha256

DIGEST_BYTES = 32
MAX_FOLDER_CHARS = 100

# There are no capital letters, because some file systems do not distinguish `A` and `a`.
PLAIN_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
NAME = re.compile(r"[a-z0-9_-]+/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}")
# A file has such a name while it is being copied into a folder.
PART_NAME = re.compile(rf"{NAME.pattern}\.part-[0-9a-f]{{16}}")
# Each database that uses the storage has a file here. No tenant has this folder: see `folder_of`.
DATABASES_FOLDER = "_penstock/databases"


def folder_of(tenant: str) -> str:
    """Return the folder of a tenant.

    No two tenants share a folder, and no tenant's name leads to a path outside the storage.
    """
    if not tenant:
        raise ValueError("A tenant's name must not be empty.")
    raw = tenant.encode()
    folder = "".join(chr(byte) if byte in PLAIN_BYTES else f"_{byte:02x}" for byte in raw)
    # In other folders an underscore is followed by two hex digits, never by a hyphen.
    return folder if len(folder) <= MAX_FOLDER_CHARS else f"_-{sha256(raw).hexdigest()}"


def tenant_of(folder: str) -> str | None:
    """Return the tenant of a folder.

    Return None if the folder's name is hashed, or is not that of a tenant.
    """
    try:
        raw = re.sub("_([0-9a-f]{2})", lambda escape: chr(int(escape[1], 16)), folder)
        tenant = raw.encode("latin-1").decode()
    except UnicodeError:
        return None
    return tenant if tenant and folder_of(tenant) == folder else None


def object_name(tenant: str, digest: bytes) -> str:
    """Return the name of a tenant's file with this SHA-256."""
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"A SHA-256 must have {DIGEST_BYTES} bytes, not {len(digest)}.")
    content = digest.hex()
    return f"{folder_of(tenant)}/{content[:2]}/{content[2:4]}/{content}"


def belongs_to(name: str, tenant: str) -> bool:
    """Return whether `name` has the form of a name of one of this tenant's files."""
    return bool(NAME.fullmatch(name)) and name.startswith(f"{folder_of(tenant)}/")


def is_object(name: str) -> bool:
    """Return whether `name` has the form of a name of a tenant's file."""
    return bool(NAME.fullmatch(name))


def is_part(name: str) -> bool:
    """Return whether `name` is that of an incomplete file, which a killed process may leave."""
    return bool(PART_NAME.fullmatch(name))


def digest_of(name: str) -> bytes:
    """Return the SHA-256 in the name of a stored file."""
    return bytes.fromhex(name.rpartition("/")[2])
