import pytest

from penstock import ConfigError
from penstock.net.guard import Allowed, describe_special_network, parse_address

FETCH = "PENSTOCK_CRAWL"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "239.1.2.3",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "3fff::1",
        "100::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "4000::1",
    ],
)
def test_what_is_no_part_of_the_public_internet_is_known(address: str) -> None:
    assert describe_special_network(parse_address(address))


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:4700:4700::1111"],
)
def test_the_public_internet_is_open(address: str) -> None:
    assert describe_special_network(parse_address(address)) is None


def test_the_environment_allows_hosts_and_networks() -> None:
    allowed = Allowed.of(
        FETCH,
        {
            "PENSTOCK_CRAWL_PRIVATE": "wiki.corp, 10.1.0.0/16",
            "PENSTOCK_CRAWL_PORTS": "443,8443",
        },
    )
    assert allowed.allows("Wiki.corp.", parse_address("192.168.0.1"))
    assert not allowed.allows("evil-wiki.corp", parse_address("192.168.0.1"))
    assert allowed.allows("any.name", parse_address("10.1.2.3"))
    assert allowed.allows("any.name", parse_address("::ffff:10.1.2.3"))
    assert not allowed.allows("any.name", parse_address("10.2.0.1"))
    assert allowed.ports == {443, 8443}
    assert Allowed.of(FETCH, {}) == Allowed(variable=FETCH)


@pytest.mark.parametrize("ports", ["http", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused(ports: str) -> None:
    with pytest.raises(ConfigError):
        Allowed.of(FETCH, {"PENSTOCK_CRAWL_PORTS": ports})
