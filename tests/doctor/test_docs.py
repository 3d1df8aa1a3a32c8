"""The page about the doctor knows every check."""

import re
from pathlib import Path

from penstock.doctor import CHECKS

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"


def test_every_check_has_its_row_in_the_table_in_the_same_order() -> None:
    _, table = PAGE.read_text().split("## The checks")
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \| (.+) \|$", table, re.MULTILINE)
    assert [name for name, _, _ in rows] == [check.name for check in CHECKS]
