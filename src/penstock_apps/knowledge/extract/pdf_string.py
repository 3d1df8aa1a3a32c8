"""A string that PDFium hands out, without what is no character: half a surrogate pair."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

END_BYTES = 2


def string(get: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
    """`get` is told where to write and how many bytes fit there, and tells how many it needs."""
    size = get(None, 0)
    buffer = ctypes.create_string_buffer(size)
    get(buffer, size)
    return buffer.raw[: max(0, size - END_BYTES)].decode("utf-16-le", "ignore")
