"""What is read from an error of Postgres, in whatever language it speaks."""

import pytest

from penstock.store import failures


class Refused(Exception):
    sqlstate = "42P01"

    def __init__(self, context: str) -> None:
        self.context = context


@pytest.mark.parametrize(
    "line",
    [
        "PL/pgSQL function {}() line 3 at SQL statement",
        "PL/pgSQL-Funktion {}() Zeile 3 bei SQL-Anweisung",
        "fonction PL/pgSQL {}(), ligne 3, à instruction SQL",
        "在SQL 语句的第3行的PL/pgSQL函数{}()",
        "PL/pgSQL関数{}()の3行目 - SQLステートメント",
    ],
)
def test_a_function_is_found_in_the_context_in_every_language(line: str) -> None:
    within = f"{line.format('penstock.enqueue_v1')}\nSELECT f(x)"

    def theirs(name: str) -> str | None:
        return failures.function_of_theirs(Refused(f"{line.format(name)}\n{within}"), "penstock")

    assert theirs("shop.note") == "shop.note"
    assert theirs("note") == "note"
    assert theirs('"Shop"."Note it"') == '"Shop"."Note it"'
    assert theirs("penstock.settle_v1") is None
    assert theirs("settle_v1") is None
    assert failures.function_of_theirs(Refused(""), "penstock") is None
