from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from penstock import ConfigError
from penstock.storage.errors import LinkRefused
from penstock.storage.links import Link, Links
from penstock.storage.names import object_name

NAME = object_name("acme", bytes(32))
SECRET = b"a secret of 16 bytes, or more"
PURPOSE = b"tests 1\n"
links = Links(SECRET, PURPOSE)


def test_a_link_opens_its_file_for_an_hour() -> None:
    token = links.sign("acme", "GET", NAME, now=1000)
    assert links.verify(token, "GET", now=4599) == Link("acme", "GET", NAME, 4600)


def test_after_the_hour_it_is_over() -> None:
    token = links.sign("acme", "GET", NAME, now=1000)
    with pytest.raises(LinkRefused, match="expired"):
        links.verify(token, "GET", now=4600)


def test_a_link_to_read_does_not_delete() -> None:
    token = links.sign("acme", "GET", NAME)
    with pytest.raises(LinkRefused, match="for GET, not for DELETE"):
        links.verify(token, "DELETE")


def test_another_secret_opens_nothing() -> None:
    with pytest.raises(LinkRefused, match="not made here"):
        Links(b"another secret of 16 bytes", PURPOSE).verify(links.sign("acme", "GET", NAME), "GET")


def test_link_of_another_purpose_opens_nothing() -> None:
    with pytest.raises(LinkRefused, match="not made here"):
        Links(SECRET, b"tests 2\n").verify(links.sign("acme", "GET", NAME), "GET")


def test_no_character_of_a_link_can_be_changed() -> None:
    token = links.sign("acme", "GET", NAME)
    for place, character in enumerate(token):
        other = "A" if character != "A" else "B"
        with pytest.raises(LinkRefused):
            links.verify(f"{token[:place]}{other}{token[place + 1 :]}", "GET")


def test_another_tenant_cannot_be_written_into_it() -> None:
    body, seal = links.sign("acme", "GET", NAME).split(".")
    forged = urlsafe_b64decode(body + "==").replace(b"acme", b"evil")
    with pytest.raises(LinkRefused, match="not made here"):
        links.verify(f"{urlsafe_b64encode(forged).rstrip(b'=').decode()}.{seal}", "GET")


@pytest.mark.parametrize("token", ["", ".", "a.b", "a.b.c", "é.é", "x" * 5000, "=.="])
def test_nonsense_is_refused_like_any_other_link(token: str) -> None:
    with pytest.raises(LinkRefused, match="not made here"):
        links.verify(token, "GET")


def test_link_is_for_the_tenants_files_and_at_most_an_hour() -> None:
    with pytest.raises(ValueError, match="no stored file of tenant 'other'"):
        links.sign("other", "GET", NAME)
    with pytest.raises(ValueError, match="3600 seconds"):
        links.sign("acme", "GET", NAME, 3601)


def test_a_short_secret_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="at least 16") as refused:
        Links(b"hunter2", PURPOSE)
    assert "hunter2" not in str(refused.value)
