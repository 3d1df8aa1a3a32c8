"""The simulation as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table

Way = Mapping[str, Any]


def rows(document: Mapping[str, Any]) -> list[list[str]]:
    """What, first come, in fair turns."""
    small = f"a job of a tenant with at most {document['small']} waits"
    values: list[tuple[str, Callable[[Way], str]]] = [
        (f"{small}, median", lambda way: f"{way['small_wait_s']['p50']:,.2f} s"),
        (f"{small}, 95 %", lambda way: f"{way['small_wait_s']['p95']:,.2f} s"),
        (f"{small}, at most", lambda way: f"{way['small_wait_s']['max']:,.2f} s"),
        ("any job waits, median", lambda way: f"{way['wait_s']['p50']:,.2f} s"),
        ("any job waits, at most", lambda way: f"{way['wait_s']['max']:,.2f} s"),
        (
            f"of the jobs started while others arrived, the {document['load']['at_once']} largest "
            "tenants had",
            lambda way: f"{way['share_of_largest'] * 100:.0f} %",
        ),
        ("Jain's index of the tenants' shares", lambda way: f"{way['jain']:.3f}"),
        ("all jobs have started after", lambda way: f"{way['seconds']:,.1f} s"),
    ]
    ways = (document["first_come"], document["fair"])
    return [[name, *(value(way) for way in ways)] for name, value in values]


def table(document: Mapping[str, Any]) -> Table:
    load = document["load"]
    made = Table(title=f"{load['tenants']:,} tenants, {load['jobs']:,} jobs")
    for title in ("", "first come", "fair turns"):
        made.add_column(title, justify="right" if title else "left")
    for row in rows(document):
        made.add_row(*row)
    return made
