"""A task of django.tasks that can say how its jobs are to be run."""

from __future__ import annotations

from dataclasses import dataclass

from django.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class PenstockTask(Task):
    """What `@task` makes for Penstock's backend; Django passes on what it does not know itself.

    @task(max_attempts=5, timeout=60)
    def send_receipt(order_id): ...

    What is not given here is the backend's to say, in its OPTIONS.
    """

    max_attempts: int | None = None
    timeout: float | None = None
