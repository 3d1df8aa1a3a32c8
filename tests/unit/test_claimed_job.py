"""What a claimed attempt knows of those before it."""

import json
from collections import defaultdict
from typing import Any

from penstock.store import ClaimedJob


def test_a_loss_is_no_failure_among_which_deaths_are_counted() -> None:
    kinds = [("death", "Segfault"), ("death", "Killed"), ("timeout", "Overtime")]
    errors = [{"kind": kind, "type": type_, "message": ""} for kind, type_ in kinds]
    extra = {"run_at": "2026-01-01T00:00:00Z", "errors": errors}
    row: Any = defaultdict(int, failures=2, extra=json.dumps(extra))
    assert ClaimedJob(row, "default").deaths == 2
