"""What a child process can import: tasks, and a way to tell which trace they were run in."""

from opentelemetry import baggage, trace

from penstock import Process, task


def seen() -> dict[str, str]:
    """The trace and the span around, and what travels with them."""
    here = trace.get_current_span().get_span_context()
    return {
        "trace": f"{here.trace_id:032x}",
        "span": f"{here.span_id:016x}",
        "customer": str(baggage.get_baggage("customer")),
    }


@task
async def look() -> dict[str, str]:
    return seen()


@task
def look_in_thread() -> dict[str, str]:
    return seen()


@task(isolate=Process())
async def look_in_child() -> dict[str, str]:
    return seen()
