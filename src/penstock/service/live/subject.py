"""What can be watched."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from penstock.client.present import KINDS
from penstock.service.problem import Problem

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,500}")


class Subject(NamedTuple):
    """A job, a batch, a queue, a tenant, a user or an application's own; `job/42` in text."""

    kind: str
    id: str

    @classmethod
    def parse(cls, text: str, brought: Collection[str] = ()) -> Subject:
        """A subject from its text; a Problem if it is none. `brought` are kinds of applications."""
        kind, _, name = text.partition("/")
        pattern = _NUMBER if kind in ("job", "batch", *brought) else _NAME
        if kind not in (*KINDS, *brought) or not pattern.fullmatch(name):
            known = ["job/42", "batch/42", "queue/…", "tenant/…", "user/…"]
            known += [f"{each}/42" for each in brought]
            told = f"{text[:100]!r} is no subject: {', '.join(known[:-1])} or {known[-1]}."
            raise Problem(422, "does-not-fit", told, fields=[("subject", told)])
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}/{self.id}"
