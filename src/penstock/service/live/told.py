"""One piece of news, written once for all who listen."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from penstock.client import BatchStatus, JobNow, OwnerNow, Present
from penstock.insights import QueueInsight
from penstock.service.live.subject import Subject
from penstock.service.shapes import REF

_encode = msgspec.json.Encoder().encode
STATES: Final = (JobNow, BatchStatus, QueueInsight, OwnerNow)
_ONE_OF: Final = [{"$ref": REF.format(name=kind.__name__)} for kind in STATES]


class LiveState(Struct, frozen=True, kw_only=True):
    """The whole present state of a subject. The same version is the same state.

    `final`: nothing comes after it. `version` and `state` are null if the subject is gone.
    """

    subject: str
    version: str | None
    final: bool
    state: Annotated[Any, Meta(extra_json_schema={"anyOf": [*_ONE_OF, {"type": "null"}]})]


class Told(Struct, frozen=True, eq=False):
    """The state of a subject, as JSON. Nothing comes after one that is final."""

    subject: Subject
    present: Present | None
    body: bytes

    @classmethod
    def of(cls, subject: Subject, present: Present | None) -> Told:
        """What is told of a subject; None stands for one that is not there."""
        told = LiveState(
            subject=str(subject),
            version=None if present is None else present.version,
            final=present is None or present.is_final,
            state=None if present is None else present.state,
        )
        return cls(subject, present, _encode(told))

    @property
    def is_final(self) -> bool:
        return self.present is None or self.present.is_final

    def is_same(self, version: str | None) -> bool:
        """Whether who has seen this version has seen this state."""
        return bool(version) and self.present is not None and self.present.is_same(version or "")
