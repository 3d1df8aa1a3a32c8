from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_apps.knowledge.file_names import display_name


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a.pdf", "a.pdf"),
        ("handbook/2026/a.pdf", "handbook/2026/a.pdf"),
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a/../../b", "a/b"),
        ("a//./b", "a/b"),
        ("C:\\Users\\me\\a.pdf", "Users/me/a.pdf"),
        ("..\\..\\win.ini", "win.ini"),
        ("a\x00b\r\n\x1b[31m.txt", "ab[31m.txt"),
        ("invoice\u202etxt.exe", "invoicetxt.exe"),
        ("über uns.txt", "über uns.txt"),
        ("u\u0308ber.txt", "über.txt"),
        ("الفصل/日本語.pdf", "الفصل/日本語.pdf"),
        ("  a.txt ", "a.txt"),
        (".bashrc", ".bashrc"),
        ("..", "unnamed"),
        ("...", "unnamed"),
        ("", "unnamed"),
        ("\x00", "unnamed"),
    ],
)
def test_a_name_is_shown_without_what_could_do_harm(raw: str, shown: str) -> None:
    assert display_name(raw) == shown


@given(st.text(max_size=40) | st.text("é/.a", min_size=500, max_size=1200))
@settings(max_examples=60, deadline=None)
def test_no_name_leads_anywhere(raw: str) -> None:
    shown = display_name(raw)
    assert shown
    assert not shown.startswith("/")
    assert not {"", ".", ".."} & set(shown.split("/"))
    assert not any(category(letter) == "Cc" for letter in shown)
    assert len(shown.encode()) <= 1024


def test_shortened_names_keep_their_ending_and_differ() -> None:
    one, other = (display_name(f"{'é' * 2000}/{number}.pdf") for number in (1, 2))
    assert one.endswith(".pdf")
    assert len(one.encode()) <= 1024
    assert one != other
