"""What is asked about what is watched."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from penstock.service.models.jobs import Closed

Watched = Annotated[str, Field(pattern=r"^[a-z-]{1,40}/.{1,500}$", examples=["job/42"])]


class AskedTicket(Closed):
    """The subjects that a ticket is to be for."""

    subjects: Annotated[list[Watched], Field(min_length=1, max_length=100)]
