"""Settings are checked once, where they are given."""

import math
from traceback import format_exception
from typing import Any

import pytest

from penstock import Penstock
from penstock.config import Database, Liveness, Pace, Stopping, Upkeep, requires_url
from penstock.errors import ConfigError

REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (Database, {"url": "mysql://ada:secret@db/shop"}, "database_url"),
    (Database, {"listen_url": "db:5432"}, "listen_url"),
    (Database, {"prepared_statements": "no"}, "prepared_statements"),
    (Database, {"schema": ""}, "schema"),
    (Database, {"schema": "s" * 51}, "schema"),
    (Database, {"pool_size": 0}, "pool_size"),
    (Liveness, {"heartbeat": 0}, "heartbeat"),
    (Liveness, {"heartbeat": 40, "lease": 60}, "heartbeat"),
    (Liveness, {"lease": "60"}, "lease"),
    (Pace, {"poll": -1}, "poll"),
    (Pace, {"claim_most": 1.5}, "claim_most"),
    (Pace, {"unsettled_most": 0}, "unsettled_most"),
    (Stopping, {"finish": -1}, "finish"),
    (Stopping, {"cancel": "ten"}, "cancel"),
    (Stopping, {"cancel": math.nan}, "cancel"),
    (Stopping, {"pool": -1}, "pool"),
    (Upkeep, {"overtime_grace": None}, "overtime_grace"),
    (Upkeep, {"isolation_wait": 86_401}, "isolation_wait"),
    (Upkeep, {"partitions_ahead": 1}, "partitions_ahead"),
    (Upkeep, {"election": 4, "term": 6}, "election"),
]


@pytest.mark.parametrize(("group", "values", "setting"), REFUSED)
def test_a_value_that_is_not_allowed_is_named(
    group: Any, values: dict[str, Any], setting: str
) -> None:
    with pytest.raises(ConfigError) as told:
        group(**values)
    assert told.value.setting == setting


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ada:secret@db/shop",
        "ada:secret@db/shop",
        "host=db dbname=shop password=secret",
        "host=db PASSWORD = 'sec secret' dbname=shop",
        "postgresql://ada:secret@db:99999/shop",
        "postgresql://ada:secret@[db/shop",
        "postgresql://db:99999/shop?password=secret",
        "postgresql://ada:se/secret@db/shop",
    ],
)
def test_a_refused_address_keeps_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        Database(url=url)
    assert "secret" not in "".join(format_exception(told.value))


@pytest.mark.parametrize(
    "url",
    [
        5,
        b"postgresql://db/shop",
        "postgresql://[bad",
        "postgresql://ada@db:99999/shop",
        "postgresql://ada@db:0/shop",
        "postgresql://ada@db:port/shop",
        "postgresql://ada@db,,db2/shop",
        "postgresql://ada@one:5432,two:99999/shop",
        "postgresql:///shop?host=/tmp&port=99999",
        "postgresql://db/shop?sslmode",
        "postgresql://db/\udcff",
    ],
    ids=ascii,
)
def test_app_refuses_a_malformed_database_url(url: Any) -> None:
    with pytest.raises(ConfigError, match="The setting database_url is"):
        Penstock(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgres:///shop",
        "postgresql://ada@db",
        "postgresql://ada:p%40ss%2Fword@db:5433/shop?sslmode=require",
        "postgresql://ada@[::1]:5432/shop",
        "postgresql://ada@one:5432,two,three:5434/shop?target_session_attrs=primary",
        "postgresql://ada@%2Ftmp%2Fsockets/shop",
        "postgresql://ada@:5433/shop",
        "postgresql:///shop?host=/tmp/sockets&port=5433",
        "postgresql:///shop?host=one,two&port=5432,5433",
    ],
)
def test_addresses_of_every_kind_are_allowed(url: str) -> None:
    assert Database(url=url).url == url


def test_arguments_beat_the_environment_which_beats_the_defaults() -> None:
    environment = {"PENSTOCK_DATABASE_URL": "postgresql://env/db", "PENSTOCK_SCHEMA": "env"}
    assert Database.of(environment=environment).schema == "env"
    assert Database.of(schema="given", environment=environment).schema == "given"
    assert Database.of(environment={}).schema == "penstock"
    assert Database.of("postgresql://given/db", environment=environment).url is not None
    assert Database.of(data_dir="folder", environment=environment).url is None


@pytest.mark.parametrize("name", ["PENSTOCK_DATABASE_URL", "PENSTOCK_LISTEN_URL"])
@pytest.mark.parametrize("url", ["", " ", "shop", "postgresql://db/shop:port?x"])
def test_malformed_database_url_in_the_environment_is_refused(name: str, url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Database.of(environment={"PENSTOCK_DATABASE_URL": "postgresql://db/shop", name: url})
    assert refused.value.setting == name


@pytest.mark.parametrize("text", ["ten", "nan", "0", "4000"])
def test_refused_timeout_in_the_environment_is_quoted(text: str) -> None:
    with pytest.raises(ConfigError, match=f"PENSTOCK_CALL_TIMEOUT is '?{text}") as refused:
        Database.of(environment={"PENSTOCK_CALL_TIMEOUT": text})
    assert refused.value.setting == "PENSTOCK_CALL_TIMEOUT"


def test_empty_address_or_folder_is_refused() -> None:
    app = Penstock("postgresql://db/shop")
    for given in ({"url": ""}, {"data_dir": ""}):
        with pytest.raises(ConfigError):
            Database.of(**given)
        with pytest.raises(ConfigError):
            app.use_database(**given)
    assert app.database.url == "postgresql://db/shop"


@pytest.mark.parametrize(("text", "is_required"), [("1", True), ("0", False), ("", False)])
def test_database_url_can_be_required(text: str, is_required: bool) -> None:
    assert requires_url({"PENSTOCK_REQUIRE_DATABASE_URL": text}) is is_required


def test_other_value_than_1_or_0_is_refused() -> None:
    with pytest.raises(ConfigError, match="PENSTOCK_REQUIRE_DATABASE_URL is 'maybe'"):
        requires_url({"PENSTOCK_REQUIRE_DATABASE_URL": "maybe"})


BOUNCER, POSTGRES = "postgresql://bouncer:6432/shop", "postgresql://db/shop"


def test_listen_url_belongs_to_the_database_url_beside_it() -> None:
    environment = {"PENSTOCK_DATABASE_URL": BOUNCER, "PENSTOCK_LISTEN_URL": POSTGRES}
    assert Database.of(environment=environment).listen_url == POSTGRES
    other = "postgresql://elsewhere/shop"
    assert Database.of(other, environment=environment).listen_url is None
    assert Database.of(other, listen_url=BOUNCER, environment=environment).listen_url == BOUNCER


def test_app_with_another_database_drops_its_listen_url() -> None:
    app = Penstock(BOUNCER, listen_url=POSTGRES)
    app.use_database(schema="jobs")
    assert app.database.listen_url == POSTGRES
    app.use_database("postgresql://localhost/test")
    assert app.database.listen_url is None
    app.use_database(listen_url=POSTGRES)
    assert app.database.listen_url == POSTGRES
