"""Windows as people write them, as a row has them, and back."""

import pytest

from penstock import zone
from penstock.errors import ConfigError
from penstock.windows import Windows


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("22:00-06:00", "22:00-06:00"),
        (" 9:05 - 24:00 ", "09:05-24:00"),
        ("MON-fri 22:00-06:00", "mon-fri 22:00-06:00"),
        ("sat,sun 00:00-24:00", "sat,sun 00:00-24:00"),
        ("fri-mon 08:00-09:00", "mon,fri-sun 08:00-09:00"),
        ("mon,tue,wed,sun 08:00-09:00", "mon-wed,sun 08:00-09:00"),
        ("mon-sun 08:00-09:00", "08:00-09:00"),
        ("wed 00:00-00:00", "wed 00:00-00:00"),
    ],
)
def test_windows_are_written_in_one_way(given: str, written: str) -> None:
    windows = Windows(given, timezone="Europe/Berlin")
    assert windows.open == (written,)
    assert Windows(*windows.open, timezone=windows.timezone) == windows
    assert Windows.read(windows.stored()) == windows


def test_a_row_has_days_by_number() -> None:
    windows = Windows("sat,sun 00:00-24:00", "mon-fri 22:00-06:00", timezone="Europe/Berlin")
    assert windows.stored() == {
        "timezone": "Europe/Berlin",
        "open": [
            {"days": [6, 7], "from": "00:00", "to": "24:00"},
            {"days": [1, 2, 3, 4, 5], "from": "22:00", "to": "06:00"},
        ],
    }
    assert str(windows) == "sat,sun 00:00-24:00; mon-fri 22:00-06:00 (Europe/Berlin)"


@pytest.mark.parametrize(
    "text", ["", "at night", "22-06", "24:00-06:00", "22:60-06:00", "22:00-24:01", "moon 1:00-2:00"]
)
def test_what_is_no_window_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"The setting windows is .*mon-fri 22:00-06:00"):
        Windows(text)


def test_no_windows_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="1 to 50"):
        Windows()


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/passwd", 5])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ConfigError, match=r"The setting timezone is .*Europe/Berlin"):
        Windows("22:00-06:00", timezone=zone)


def test_time_zone_is_unchecked_on_a_machine_without_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone, "available_timezones", set)
    assert Windows("22:00-06:00", timezone="Mars/Olympus").timezone == "Mars/Olympus"


@pytest.mark.parametrize("stored", [{}, {"open": "nights"}, {"open": [{"days": [1]}]}])
def test_unreadable_stored_windows_are_none(stored: dict) -> None:
    assert Windows.read(stored) is None
