"""Files to be stored."""

from hashlib import sha256
from pathlib import Path


def a_file(folder: Path, content: bytes, name: str = "a.txt") -> tuple[Path, bytes]:
    """A file and the digest of its content."""
    path = folder / name
    path.write_bytes(content)
    return path, sha256(content).digest()
