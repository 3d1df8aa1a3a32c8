"""Which servers a database URL names, and how it is shown."""

import pytest

from penstock.config import Database
from penstock.errors import ConfigError
from penstock.hosts import hosts_of, place

URLS = [
    ("postgresql://db/shop", [("db", 5432)], "shop on db:5432"),
    ("postgresql://ada:s%40@a:1,b/shop", [("a", 1), ("b", 5432)], "shop on a:1, b:5432"),
    ("postgresql://[::1]:7,[::2]/shop", [("::1", 7), ("::2", 5432)], "shop on [::1]:7, [::2]:5432"),
    ("postgresql:///shop?host=a,b&port=1,2", [("a", 1), ("b", 2)], "shop on a:1, b:2"),
    ("postgresql:///shop?host=a,b&port=6", [("a", 6), ("b", 6)], "shop on a:6, b:6"),
    ("postgresql://%2Frun%2Fpg/shop", [("/run/pg", 5432)], "shop on the local socket"),
    ("postgresql://ada@/shop?host=/run/pg", [("/run/pg", 5432)], "shop on the local socket"),
    ("postgresql:///shop", [], "shop on the local socket"),
]


@pytest.mark.parametrize(("url", "hosts", "shown"), URLS)
def test_the_hosts_of_a_url(
    url: str, hosts: list[tuple[str, int]], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGPORT", raising=False)
    assert list(hosts_of(url)) == hosts
    assert place(url) == shown


def test_the_environment_names_hosts_where_the_url_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "a,b")
    monkeypatch.setenv("PGPORT", "7")
    assert place("postgresql:///shop") == "shop on a:7, b:7"


def test_as_many_ports_as_hosts_are_expected() -> None:
    with pytest.raises(ConfigError):
        Database(url="postgresql:///shop?host=a,b,c&port=1,2")
