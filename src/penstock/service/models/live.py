"""What is asked about what is watched."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from penstock.service.models.jobs import Closed
from penstock.service.problems import worded

SUBJECT = worded(r"^[a-z-]{1,40}/.{1,500}$", "a kind and an id, such as job/42")

Watched = Annotated[str, Field(pattern=SUBJECT, examples=["job/42"])]


class AskedTicket(Closed):
    """The subjects that a ticket is to be for."""

    subjects: Annotated[list[Watched], Field(min_length=1, max_length=100)]
