"""The manuals that questions were written about, with the editions that hold them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

POSTGRES, LINUX, TENANT, PYTHON = 1, 2, 3, 4
EDITIONS: Final = 4


@dataclass(frozen=True)
class Question:
    """A question as a user would ask it, and the pages that answer it."""

    question: str
    answers: tuple[str, ...]

    def is_answered_by(self, path: str) -> bool:
        return any(f"/{path}".endswith(f"/{answer}") for answer in self.answers)


@dataclass(frozen=True)
class Manual:
    """A manual that Debian has packaged."""

    name: str
    package: str
    pages: str
    editions: tuple[int, ...]

    @property
    def questions(self) -> list[Question]:
        """As they are written in a file of their own."""
        file = Path(__file__).parent / "questions" / f"{self.name}.json"
        asked = json.loads(file.read_text("utf-8"))
        return [Question(each["question"], tuple(each["answers"])) for each in asked]


# The ranking was tuned on the questions about the first, and on no others of these.
TUNED = Manual("postgres", "postgresql-doc-15", "postgresql-doc-15/html/*.html", (POSTGRES,))
KERNEL = Manual("linux", "linux-doc-6.1", "linux-doc-6.1/html/**/*.html", (LINUX, TENANT))
MANUALS: Final = (
    TUNED,
    Manual("python", "python3.11-doc", "python3.11/html/*/*.html", (PYTHON,)),
    KERNEL,
)
