"""What an installation sets."""

import pytest
from msgspec.structs import asdict

from penstock import ConfigError
from penstock.storage.location import StorageOptions
from penstock.storage.storage import Storage
from penstock_apps.knowledge.knowledge import check_environment
from penstock_apps.knowledge.settings import (
    MB,
    PREFIX,
    STORAGE_VARIABLE,
    Settings,
)

NUMBERS = sorted(
    name for name, value in asdict(Settings.of({})).items() if type(value) in (int, float)
)


def test_what_the_environment_says_comes_before_the_defaults() -> None:
    found = Settings.of({f"{PREFIX}PAGES": "7", f"{PREFIX}INLINE": "false", "PAGES": "8"})
    assert (found.pages, found.inline, found.request_files) == (7, False, 20_000)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_below_zero_is_refused_by_its_name(name: str) -> None:
    setting = PREFIX + name.upper()
    with pytest.raises(ConfigError, match=rf"{setting} is '-1'; it must be .* >= [01]") as refused:
        Settings.of({setting: "-1"})
    assert (refused.value.setting, refused.value.value) == (setting, "-1")


@pytest.mark.parametrize("name", sorted(set(NUMBERS) - {"attempts", "deaths", "embed_attempts"}))
def test_nothing_is_a_number_that_may_be_set(name: str) -> None:
    assert getattr(Settings.of({PREFIX + name.upper(): "0"}), name) == 0


@pytest.mark.parametrize("value", ["1.01", "-0.01", "nan"])
def test_a_share_is_between_none_and_all(value: str) -> None:
    with pytest.raises(ConfigError, match="INLINE_SHARE"):
        Settings.of({f"{PREFIX}INLINE_SHARE": value})


@pytest.mark.parametrize("value", ["nan", "inf", "many"])
def test_what_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="RAW_DAYS"):
        Settings.of({f"{PREFIX}RAW_DAYS": value})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("PARSER", "zzz", "llamaparse or own"),
        ("REQUEST_FILES", "abc", "a whole number >= 0"),
        ("INLINE_SHARE", "2", "a number >= 0 and <= 1"),
        ("RAW_DAYS", "soon", "a number >= 0 and <= 1,000,000"),
        ("INLINE", "perhaps", "true or false"),
        ("EXTRACT_MEMORY", "lots", "at least 64MB, such as 512MB or 2GB"),
        ("STORAGE_PATIENCE", "0", "seconds, more than 0 and up to 3600"),
        ("STORAGE_ALLOW_HTTP", "perhaps", "true or false"),
        ("FETCH_PORTS", "99999", "numbers from 1 to 65535, separated by commas"),
    ],
)
def test_what_cannot_be_set_is_refused_at_the_start_in_words(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_environment({PREFIX + name: value})
    told = f"The setting {PREFIX}{name} is {value!r}; it must be {allowed}."
    assert str(refused.value) == told


def test_a_storage_of_no_known_kind_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=rf"{PREFIX}STORAGE is 'ftp://x'; it must be a folder, "):
        Storage.of("ftp://x", StorageOptions.of(STORAGE_VARIABLE))


def test_of_a_variable_that_nobody_reads_is_warned_once(caplog: pytest.LogCaptureFixture) -> None:
    known = {f"{PREFIX}FETCH_PORTS": "80", f"{PREFIX}STORAGE_REGION": "eu", f"{PREFIX}PAGES": "7"}
    for _ in range(2):
        check_environment(known | {f"{PREFIX}INDEX_FORM": "5", f"{PREFIX}ZZZ": "1"})
    assert caplog.messages == [
        f"The variable {PREFIX}INDEX_FORM is ignored: "
        "the knowledge application has no such setting. "
        f"Did you mean {PREFIX}INDEX_FROM?",
        f"The variable {PREFIX}ZZZ is ignored: the knowledge application has no such setting.",
    ]


def test_no_time_for_a_file_is_no_limit() -> None:
    assert Settings.of({f"{PREFIX}EXTRACT_SECONDS": "0"}).extract_process.seconds is None


def test_short_secret_is_refused_at_start_and_never_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        check_environment({f"{PREFIX}LINK_SECRET": "too short"})
    assert refused.value.setting == f"{PREFIX}LINK_SECRET"
    assert "too short" not in str(refused.value)
    settings = Settings.of({f"{PREFIX}LINK_SECRET": "a secret of many bytes"})
    assert settings.link_secret == "a secret of many bytes"
    assert "a secret" not in repr(settings)


@pytest.mark.parametrize(
    ("size", "given", "seconds"),
    [
        (0, {}, 120),
        (MB, {}, 240),
        (4 * MB, {}, 3600),
        (0, {"EXTRACT_LEAST_SECONDS": "0"}, 1),
        (MB, {"EXTRACT_LEAST_SECONDS": "5", "EXTRACT_SECONDS_PER_MB": "2"}, 7),
        (0, {"EXTRACT_SECONDS": "60"}, 3600),
        (0, {"EXTRACT_SECONDS": "0"}, 3600),
    ],
)
def test_a_document_may_take_longer_the_larger_it_is(
    size: int, given: dict[str, str], seconds: float
) -> None:
    settings = Settings.of({PREFIX + name: value for name, value in given.items()})
    assert settings.timeout(size) == seconds
