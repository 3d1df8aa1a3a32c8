"""Two tenants on one queue, kept apart by the database itself.

An administrator switches row level security on, once. From then on the web server, which logs in
as one role, sees one tenant's jobs at a time; the worker, which logs in as another, runs them all.

Run it with `python examples/tenants.py`.
"""

import asyncio
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from penstock import Context, Penstock, task
from penstock.errors import JobNotFound, TenantMismatch
from penstock.migrate import migrate

LOGINS = {"library_web": "penstock_app", "library_worker": "penstock_worker"}


@task
async def read(ctx: Context, document: str) -> str:
    return f"{ctx.job.tenant} has read {document}"


async def set_up(url: str) -> None:
    """What an administrator does: `penstock migrate --rls`, and a login for each role."""
    await migrate(url, rls=True)
    connection = await asyncpg.connect(url)
    for login, role in LOGINS.items():
        if not await connection.fetchval("SELECT to_regrole($1)", login):
            await connection.execute(f"CREATE ROLE {login} LOGIN")
        await connection.execute(f"GRANT {role} TO {login}")
    await connection.close()


def as_login(url: str, login: str) -> str:
    """The same database for another role."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{place}"))


async def main() -> None:
    async with Penstock() as owner:
        await set_up(owner.url)
        web = Penstock(as_login(owner.url, "library_web"), include=[read])
        worker = Penstock(as_login(owner.url, "library_worker"), include=[read])
        async with web, worker:
            await show(web, worker)


async def show(web: Penstock, worker: Penstock) -> None:
    acme, globex = web.for_tenant("acme"), web.for_tenant("globex")
    job = await acme.enqueue(read, "roof.pdf")
    await globex.enqueue(read, "cellar.pdf")
    await worker.worker().drain()

    for tenant in (acme, globex):
        print([job.result for job in (await tenant.list()).jobs])
    print(len((await web.list()).jobs), "jobs without a tenant")
    try:
        await globex.cancel(job)
    except JobNotFound:
        print("globex finds no job of acme")
    try:
        await globex.enqueue(read.options(tenant="acme"), "attic.pdf")
    except TenantMismatch:
        print("globex enqueues none for acme")


if __name__ == "__main__":
    asyncio.run(main())
