"""What jobs of knowledge have to be given. With anything else they fail for good at once."""

from __future__ import annotations

from penstock import Context, NotRetryable

LARGEST_ID = 2**63 - 1


def tenant_of(ctx: Context) -> str:
    """The tenant of a job; NotRetryable if it has none."""
    if not ctx.job.tenant:
        raise NotRetryable(f"Job {ctx.job.id} of {ctx.job.task} has no tenant, and needs one.")
    return ctx.job.tenant


def batch_of(ctx: Context) -> str:
    """The batch that a job is the callback of; NotRetryable if it is of none."""
    batch = ctx.job.meta.get("batch")
    if not isinstance(batch, str):
        raise NotRetryable(
            f"Job {ctx.job.id} of {ctx.job.task} is not the callback of a batch: nothing but a "
            "batch that ends may enqueue this task."
        )
    return batch


def expect_id(ctx: Context, what: str, id: int | None) -> int:
    """An id that may be one; NotRetryable for what cannot be."""
    if id is None or not 0 < id <= LARGEST_ID:
        raise NotRetryable(
            f"Job {ctx.job.id} of {ctx.job.task} names the {what} {id}, and no {what} can have "
            "that id."
        )
    return id
