"""What goes wrong between a text and its vector. No message holds a text or a key."""

from __future__ import annotations

from penstock import NotRetryable
from penstock_apps.knowledge.errors import KnowledgeError


class KeyMissing(KnowledgeError, NotRetryable):
    """The key of a model API is not in the environment."""

    def __init__(self, provider: str, variable: str) -> None:
        self.variable = variable
        super().__init__(
            f"The embeddings of {provider} need a key: set the environment variable {variable} "
            "where the workers and the service run."
        )


class Misfit(KnowledgeError, NotRetryable):
    """A model API refuses the settings or the key, or answers something else than was asked."""


class Refused(KnowledgeError, NotRetryable):
    """A model API has refused texts: send the halves; of one text alone, it is that text."""

    def __init__(self, provider: str, status: int, texts: int) -> None:
        self.status = status
        self.texts = texts
        told = "a text" if texts == 1 else f"a call with {texts:,} texts"
        remedy = (
            "It may be too long for the model, or hold what the model does not take."
            if texts == 1
            else "One of them may be at fault: send them in halves."
        )
        super().__init__(f"{provider} has refused {told} with {status}. {remedy}")
