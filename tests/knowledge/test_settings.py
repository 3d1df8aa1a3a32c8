"""What an installation sets."""

import pytest
from msgspec.structs import asdict

from penstock import ConfigError
from penstock_apps.knowledge.settings import PREFIX, Settings

NUMBERS = sorted(
    name for name, value in asdict(Settings.of({})).items() if type(value) in (int, float)
)


def test_what_the_environment_says_comes_before_the_defaults() -> None:
    found = Settings.of({f"{PREFIX}PAGES": "7", f"{PREFIX}INLINE": "false", "PAGES": "8"})
    assert (found.pages, found.inline, found.request_files) == (7, False, 20_000)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_below_zero_is_refused_by_its_name(name: str) -> None:
    setting = PREFIX + name.upper()
    with pytest.raises(ConfigError, match=rf"{setting} is '-1'; allowed is .* >= 0") as refused:
        Settings.of({setting: "-1"})
    assert (refused.value.setting, refused.value.value) == (setting, "-1")


@pytest.mark.parametrize("name", NUMBERS)
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
