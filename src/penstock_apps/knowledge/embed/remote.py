"""Call a model API over HTTP, read vectors from its answer, and turn refusals into errors."""

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
from penstock_apps.knowledge.embed.embedder import CallRefused, EmbedderMisfit
from penstock_apps.knowledge.embed.numeric import normalised, np

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors


def vectors_of(
    provider: str, answers: Sequence[Sequence[float] | str], texts: int, dimensions: int
) -> Vectors:
    """Return the vectors in the API's answers, scaled to length 1, one row for each text.

    An answer is a list of numbers, or the same numbers in base64. Raises `EmbedderMisfit` if the
    number of answers or of dimensions is not as expected.
    """
    if len(answers) != texts:
        raise EmbedderMisfit(
            f"{provider} has returned {len(answers):,} vectors for {texts:,} texts."
        )
    vectors = np.empty((texts, dimensions), np.float32)
    for row, vector in enumerate(answers):
        numbers = np.frombuffer(b64decode(vector), "<f4") if isinstance(vector, str) else vector
        if len(numbers) != dimensions:
            raise EmbedderMisfit(
                f"{provider} has returned vectors of {len(numbers):,} dimensions; the settings "
                f"say {dimensions:,}. Set embedding.dimensions to what the model has."
            )
        vectors[row] = numbers
    if not np.isfinite(vectors).all():
        raise EmbedderMisfit(f"{provider} has returned a vector with values that are not numbers.")
    return normalised(vectors)


Answer = TypeVar("Answer")

CONNECT_TIMEOUT_S: Final = 10.0
# Nobody tops up an account within a minute.
NO_CREDIT_RETRY_S: Final = 600.0
BAD_REQUEST_STATUSES: Final = (400, 413, 422)
# These refusals are about the settings: other texts would be refused as well.
SETTINGS_REFUSED: Final = re.compile(
    r"dimension|encoding_format|input_type"
    r"|(invalid|unknown|unsupported|no such)\W+model|model\b.{0,80}\b(not|n't|unknown|invalid)\b",
    re.IGNORECASE | re.DOTALL,
)
LENGTH_REFUSED: Final = re.compile(
    r"too (long|large|many)|maximum|context|exceed|length", re.IGNORECASE
)


class Remote:
    """Calls one URL of a model API."""

    def __init__(
        self, provider: str, url: str, key: str | None, timeout: float, *, key_from: str
    ) -> None:
        self._provider = provider
        self._url = url
        self._key = key
        self._key_from = key_from
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None

    async def ask(self, body: dict[str, Any], answer: type[Answer], texts: int) -> Answer:
        """Send a request with `texts` texts, and return the API's answer.

        Raises `Retryable` if the API is busy or does not answer, `CallRefused` if it refuses the
        request and the texts may be the cause, and `EmbedderMisfit` if the settings or the key are.
        """
        try:
            # httpx restarts its timeout with every byte, so a server that trickles would never
            # time out.
            async with asyncio.timeout(self._timeout):
                response = await self._open_client().post(
                    self._url, content=msgspec.json.encode(body)
                )
        except TimeoutError:
            raise self._retryable_error(f"did not answer in {self._timeout:g} s") from None
        except httpx.InvalidURL:
            raise EmbedderMisfit(
                f"The address of {self._provider} is not a valid URL. Check the setting base_url."
            ) from None
        except httpx.HTTPError as error:
            # This error is not chained, because it contains the request, and with it the key.
            raise self._retryable_error(f"could not be reached ({type(error).__name__})") from None
        if not response.is_success:
            raise self._error_for(response, texts)
        try:
            return msgspec.json.decode(response.content, type=answer)
        except msgspec.DecodeError:
            raise EmbedderMisfit(
                f"{self._provider} has returned something other than embeddings. Check the "
                "setting base_url."
            ) from None

    async def close(self) -> None:
        if self._client:
            await self._client.aclose()
            self._client = None

    def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            headers = {"Content-Type": "application/json"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._client = httpx.AsyncClient(
                verify=_ssl_context(),
                headers=headers,
                timeout=httpx.Timeout(self._timeout, connect=min(CONNECT_TIMEOUT_S, self._timeout)),
            )
        return self._client

    def _error_for(self, response: httpx.Response, texts: int) -> Exception:
        status = response.status_code
        if status in (401, 403):
            return EmbedderMisfit(
                f"{self._provider} has refused the key with {status}. "
                f"Check the environment variable {self._key_from}."
            )
        if status == 404:
            return EmbedderMisfit(
                f"{self._provider} has no such model or no such address (404). "
                "Check the settings model and base_url."
            )
        if status == 429 and b"insufficient_quota" in response.content:
            return self._retryable_error("has no credit left for this key (429)", NO_CREDIT_RETRY_S)
        if status in (408, 409, 425, 429) or status >= 500:
            return self._retryable_error(
                f"is busy or broken ({status})", asked_wait(response.headers)
            )
        if status in BAD_REQUEST_STATUSES and not _is_about_settings(response.text):
            return CallRefused(self._provider, status, texts)
        return EmbedderMisfit(
            f"{self._provider} has refused the settings with {status}. "
            "Check model, dimensions and base_url."
        )

    def _retryable_error(self, predicate: str, after: float | None = None) -> Retryable:
        return Retryable(f"{self._provider} {predicate}.", after=after)


@cache
def _ssl_context() -> SSLContext:
    """Load the trusted certificates once, because loading them takes as long as a call."""
    return httpx.create_ssl_context()


def _is_about_settings(body: str) -> bool:
    return bool(SETTINGS_REFUSED.search(body)) and not LENGTH_REFUSED.search(body)
