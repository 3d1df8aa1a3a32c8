"""What is watched, as the API takes and gives it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from penstock.service.models.jobs import Closed

Watched = Annotated[
    str, Field(pattern=r"^(job|batch|queue|tenant|user)/.{1,500}$", examples=["job/42"])
]


class LiveState(BaseModel):
    """The whole present state of a subject. The same version is the same state."""

    subject: str
    version: str | None = Field(description="None if the subject is no longer there.")
    final: bool = Field(description="Nothing comes after it.")
    state: dict[str, Any] | None = Field(
        description="A job, a batch, a queue, or the counts of a tenant or user."
    )


class AskedTicket(Closed):
    subjects: Annotated[list[Watched], Field(min_length=1, max_length=100)]


class TicketModel(BaseModel):
    """Lets its bearer begin to listen, as `?ticket=…`, within so many seconds."""

    ticket: str
    expires_in: int
