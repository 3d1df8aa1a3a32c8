"""What spans say of themselves, in the words of OpenTelemetry's conventions for messaging."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from penstock.client.tracing import Requests
from penstock.outcome import Transition
from penstock.store import Attempt

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.type"
OPERATION_NAME: Final = "messaging.operation.name"
ID: Final = "messaging.message.id"
COUNT: Final = "messaging.batch.message_count"
ERROR: Final = "error.type"
TASK: Final = "penstock.task"
TENANT: Final = "penstock.tenant"
ATTEMPT: Final = "penstock.attempt"
OUTCOME: Final = "penstock.state"
REASON: Final = "penstock.reason"

Attributes = dict[str, Any]


def name(verb: str, queues: Collection[str]) -> str:
    """`send mail`; of several queues at once the verb alone."""
    return f"{verb} {next(iter(queues))}" if len(queues) == 1 else verb


def of_requests(requests: Requests) -> Attributes:
    queues = {request.options.queue for request in requests}
    tasks = {request.task for request in requests}
    found = _of("send", "enqueue")
    if len(queues) == 1:
        found[DESTINATION] = queues.pop()
    if len(tasks) == 1:
        found[TASK] = tasks.pop()
    if len(requests) > 1:
        found[COUNT] = len(requests)
    return found


def of_attempt(attempt: Attempt) -> Attributes:
    found = _of("process", "process") | _job(attempt)
    found[TASK] = attempt.task
    found[ATTEMPT] = attempt.number
    if tenant := attempt.row["tenant"]:
        found[TENANT] = tenant
    return found


def of_settle(attempt: Attempt) -> Attributes:
    return _of("settle", "settle") | _job(attempt)


def of_outcome(transition: Transition) -> Attributes:
    found: Attributes = {OUTCOME: transition.state}
    if transition.reason is not None:
        found[REASON] = transition.reason
    return found


def _job(attempt: Attempt) -> Attributes:
    return {DESTINATION: attempt.queue, ID: str(attempt.id)}


def _of(operation: str, called: str) -> Attributes:
    return {SYSTEM: "penstock", OPERATION: operation, OPERATION_NAME: called}
