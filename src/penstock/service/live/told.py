"""One piece of news, written once for all who listen."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from penstock.client import Present
from penstock.service.live.subject import Subject

_encode = msgspec.json.Encoder().encode


class Told(Struct, frozen=True, eq=False):
    """The state of a subject, as JSON. Nothing comes after one that is final."""

    subject: Subject
    present: Present | None
    body: bytes

    @classmethod
    def of(cls, subject: Subject, present: Present | None) -> Told:
        """What is told of a subject; None stands for one that is not there."""
        body = {
            "subject": str(subject),
            "version": None if present is None else present.version,
            "final": present is None or present.is_final,
            "state": None if present is None else present.state,
        }
        return cls(subject, present, _encode(body))

    @property
    def is_final(self) -> bool:
        return self.present is None or self.present.is_final

    def is_same(self, version: str | None) -> bool:
        """Whether who has seen this version has seen this state."""
        return bool(version) and self.present is not None and self.present.is_same(version or "")
