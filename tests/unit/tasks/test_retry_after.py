"""Errors that say when to come back are understood without the library that raised them."""

from email.message import Message
from typing import Any
from urllib.error import HTTPError

import httpx
import pytest

from penstock.errors import Retryable
from penstock.tasks.handler.failure import MAX_WAIT_S, http_retry_after, retry_after


def refused(status: int = 429, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://model.example/v1")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, headers=named, request=request)
    return httpx.HTTPStatusError("refused", request=request, response=response)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (refused(Retry_After="7"), 7.0),
        (refused(503, Retry_After="7"), 7.0),
        (refused(Retry_After="1.5"), 1.5),
        (refused(Retry_After="0"), 1.0),
        (refused(Retry_After="99999999"), MAX_WAIT_S),
        (refused(retry_after_ms="2500", Retry_After="3"), 2.5),
        (
            refused(
                Retry_After="Fri, 31 Dec 1999 23:59:59 GMT", Date="Fri, 31 Dec 1999 23:59:29 GMT"
            ),
            30.0,
        ),
        (refused(Retry_After="Fri, 31 Dec 1999 23:59:59 GMT"), 1.0),
        (refused(500, Retry_After="7"), None),
        (refused(), None),
        (refused(Retry_After="soon"), None),
        (refused(Retry_After="nan"), None),
        (ValueError("429"), None),
        (None, None),
    ],
)
def test_a_refusal_says_how_long_by_its_header(
    error: BaseException | None, seconds: float | None
) -> None:
    assert http_retry_after(error) == seconds
    assert retry_after(error) == seconds


def test_the_answer_may_be_the_error_itself() -> None:
    headers = Message()
    headers["Retry-After"] = "4"
    assert retry_after(HTTPError("https://x.example", 429, "busy", headers, None)) == 4.0


def test_our_own_error_says_it_too_but_is_no_servers_answer() -> None:
    assert retry_after(Retryable("busy", after=0.2)) == 0.2
    assert retry_after(Retryable("busy", after=-1)) == 0.0
    assert retry_after(Retryable("busy", after=float("nan"))) is None
    assert retry_after(Retryable("busy")) is None
    assert http_retry_after(Retryable("busy", after=0.2)) is None


def test_a_group_asks_for_the_longest_if_all_of_it_asks() -> None:
    two = [refused(Retry_After="2"), refused(Retry_After="5")]
    assert retry_after(ExceptionGroup("both", two)) == 5.0
    assert retry_after(ExceptionGroup("one", [*two, ValueError()])) is None


def test_an_error_that_cannot_be_looked_at_asks_for_nothing() -> None:
    class Odd(Exception):
        @property
        def response(self) -> Any:
            raise RuntimeError("not yet")

    assert retry_after(Odd()) is None
