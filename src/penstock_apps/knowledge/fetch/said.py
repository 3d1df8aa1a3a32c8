"""What a network says, in words for people."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import httpcore

from penstock_apps.knowledge.fetch.errors import FetchFailed, FetchRefused


@contextmanager
def said_plainly(host: str) -> Iterator[None]:
    """Ask a server for something; what goes wrong on the way becomes one of our errors."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise FetchFailed(f"The server {host} does not answer in time.") from error
    except httpcore.ConnectError as error:
        if (why := _certificate(error)) is not None:
            raise FetchRefused(
                "certificate",
                f"The server {host} cannot show that it is {host}: "
                f"its certificate is not valid ({why.rstrip('.')}).",
            ) from error
        # Not why: that has the address of a server that we may know by its name alone.
        raise FetchFailed(f"The server {host} cannot be reached.") from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchFailed(f"The server {host} broke off its answer ({error}).") from error


def _certificate(error: BaseException | None) -> str | None:
    """What is wrong with a certificate, if that is what lies below this error."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None
