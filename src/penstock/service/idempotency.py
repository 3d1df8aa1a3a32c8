"""The header `Idempotency-Key`: a request that is sent again is done once, and answered again.

The database keeps the key with the jobs of the request, in one transaction: see `claim_idempotency_keys`. What
the key stands for is the whole body, so that another body with the same key is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from fastapi import Header
from msgspec.structs import replace
from pydantic import BaseModel

from penstock.service.problems import Problem, worded
from penstock.tasks import Request

HEADER: Final = "idempotency-key"
KEY: Final = worded(r"^[\x21-\x7e]{1,255}$", "at most 255 visible ASCII characters without spaces")
IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=KEY,
        description="Sent again with the same key and body, the request is done once, and the "
        "answer has the same ids. Another body with a key that was used within 7 days is a 409. "
        "A key belongs to a tenant.",
    ),
]


def keyed(requests: Sequence[Request[Any]], key: str | None, body: BaseModel) -> list[Request[Any]]:
    """The requests of one body under its key; the first bears it, so that any other body meets it.

    The keys of the others hold a space, which no header can.
    """
    if key is None:
        return list(requests)
    if any(each.options.idempotency_key not in (None, key) for each in requests) or (
        len(requests) > 1 and any(each.options.idempotency_key for each in requests)
    ):
        told = f"is given beside the header {HEADER}: give one of them"
        fields = [("options.idempotency_key", told)]
        raise Problem(422, "does-not-fit", f"options.idempotency_key {told}.", fields=fields)
    fields_given = body.model_dump(mode="json", exclude_unset=True)
    whole_body = msgspec.json.encode(fields_given, order="deterministic")
    fingerprint = hashlib.sha256(type(body).__name__.encode() + whole_body).digest()
    return [
        replace(
            each,
            options=replace(each.options, idempotency_key=f"{key} {place}" if place else key),
            fingerprint=fingerprint,
        )
        for place, each in enumerate(requests)
    ]


def refuse_unkept(path: str) -> Problem:
    """The answer to a key where none is kept: who relies on it should know."""
    told = (
        f"POST {path} keeps no idempotency keys. Send it without the header {HEADER}, which is for "
        "enqueueing jobs and uploading files."
    )
    return Problem(422, "idempotency-key-not-taken", told, fields=[(f"header.{HEADER}", told)])
