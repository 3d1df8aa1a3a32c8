"""Handlers that use the ORM in child processes."""

import logging
import os
from typing import Any

import pytest

from penstock.integrations.django import DjangoPenstock, enqueue
from tests.django.bakery.jobs import bake_aside
from tests.django.bakery.models import Bread
from tests.fixtures.database import Database


def test_a_handler_uses_the_orm_in_a_child_process(
    app: DjangoPenstock,
    work: Any,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("BAKERY_DATABASE", database.url)
    jobs = [enqueue(bake_aside, name) for name in ("rye", "spelt")]
    with caplog.at_level(logging.WARNING, "bakery"):
        assert work().completed == 2
    told = [app.sync.get(job).result for job in jobs]
    assert os.getpid() not in {pid for pid, _ in told}
    # Two children never share a connection; one child may have opened two.
    assert len({backend for _, backend in told}) >= len({pid for pid, _ in told})
    assert {bread.name for bread in Bread.objects.all()} == {"rye", "spelt"}
    assert sorted(caplog.messages) == ["rye is baked", "spelt is baked"]
