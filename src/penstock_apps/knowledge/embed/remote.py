"""A model API that is asked over HTTP, from its answer to vectors, and what its refusals mean."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from collections.abc import Sequence
from functools import cache
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx
import msgspec

from penstock import Retryable, asked_wait
from penstock_apps.knowledge.embed.embedder import Misfit, Refused
from penstock_apps.knowledge.embed.numeric import normalised, np

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors


def vectors_of(
    provider: str, answered: Sequence[Sequence[float] | str], texts: int, dimensions: int
) -> Vectors:
    """A row a text; each vector is a list of numbers, or these in base64."""
    if len(answered) != texts:
        raise Misfit(f"{provider} has answered {len(answered):,} vectors for {texts:,} texts.")
    vectors = np.empty((texts, dimensions), np.float32)
    for row, vector in enumerate(answered):
        numbers = np.frombuffer(b64decode(vector), "<f4") if isinstance(vector, str) else vector
        if len(numbers) != dimensions:
            raise Misfit(
                f"{provider} has answered vectors of {len(numbers):,} dimensions; the settings say "
                f"{dimensions:,}. Set embedding.dimensions to what the model has."
            )
        vectors[row] = numbers
    if not np.isfinite(vectors).all():
        raise Misfit(f"{provider} has answered a vector that holds no number.")
    return normalised(vectors)


Answer = TypeVar("Answer")

CONNECT_TIMEOUT: Final = 10.0
# An account without credit is not filled up in a minute.
WITHOUT_CREDIT: Final = 600.0
BAD_REQUEST: Final = (400, 413, 422)
# A refusal that no other text would change.
OF_SETTINGS: Final = re.compile(
    r"dimension|encoding_format|input_type"
    r"|(invalid|unknown|unsupported|no such)\W+model|model\b.{0,80}\b(not|n't|unknown|invalid)\b",
    re.IGNORECASE | re.DOTALL,
)
OF_LENGTH: Final = re.compile(r"too (long|large|many)|maximum|context|exceed|length", re.IGNORECASE)


class Remote:
    """One address of a model API."""

    def __init__(
        self, provider: str, url: str, key: str | None, timeout: float, *, key_from: str
    ) -> None:
        self._provider = provider
        self._url = url
        self._key = key
        self._key_from = key_from
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None

    async def ask(self, question: dict[str, Any], answer: type[Answer], texts: int) -> Answer:
        """What the API answers to a call with so many texts."""
        try:
            # httpx counts anew with every byte; one that trickles would hold the call for ever.
            async with asyncio.timeout(self._timeout):
                response = await self._open().post(self._url, content=msgspec.json.encode(question))
        except TimeoutError:
            raise self._retryable(f"did not answer in {self._timeout:g} s") from None
        except httpx.InvalidURL:
            raise Misfit(f"The address of {self._provider} is no address.") from None
        except httpx.HTTPError as error:
            # Not as its cause, for with it goes the request, and the key in it.
            raise self._retryable(f"could not be asked ({type(error).__name__})") from None
        if not response.is_success:
            raise self._refusal(response, texts)
        try:
            return msgspec.json.decode(response.content, type=answer)
        except msgspec.DecodeError:
            raise Misfit(
                f"{self._provider} has answered with something else than embeddings. "
                "Check the setting base_url."
            ) from None

    async def close(self) -> None:
        if self._client:
            await self._client.aclose()
            self._client = None

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            headers = {"Content-Type": "application/json"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._client = httpx.AsyncClient(
                verify=_tls(),
                headers=headers,
                timeout=httpx.Timeout(self._timeout, connect=min(CONNECT_TIMEOUT, self._timeout)),
            )
        return self._client

    def _refusal(self, response: httpx.Response, texts: int) -> Exception:
        status = response.status_code
        if status in (401, 403):
            return Misfit(
                f"{self._provider} has refused the key with {status}. "
                f"Check the environment variable {self._key_from}."
            )
        if status == 404:
            return Misfit(
                f"{self._provider} has no such model or no such address (404). "
                "Check the settings model and base_url."
            )
        if status == 429 and b"insufficient_quota" in response.content:
            return self._retryable("has no credit left for this key (429)", WITHOUT_CREDIT)
        if status in (408, 409, 425, 429) or status >= 500:
            return self._retryable(f"is busy or broken ({status})", asked_wait(response.headers))
        if status in BAD_REQUEST and not _is_about_settings(response.text):
            return Refused(self._provider, status, texts)
        return Misfit(
            f"{self._provider} has refused the settings with {status}. "
            "Check model, dimensions and base_url."
        )

    def _retryable(self, what: str, after: float | None = None) -> Retryable:
        return Retryable(f"{self._provider} {what}.", after=after)


@cache
def _tls() -> SSLContext:
    """Whom to believe: read once, since that takes as long as a call."""
    return httpx.create_ssl_context()


def _is_about_settings(body: str) -> bool:
    return bool(OF_SETTINGS.search(body)) and not OF_LENGTH.search(body)
