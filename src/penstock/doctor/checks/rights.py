"""May the role do what a client and a worker must?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.migrate import rls
from penstock.migrate.compatibility import newest_functions
from penstock.migrate.rights import Lack, grants, lacking, worker_functions
from penstock.sql import quote, roles
from penstock.sql.rights import CLIENT_TABLES, WORKER_TABLES
from penstock.wording import listed


class Owner(Struct, frozen=True):
    """Who owns the history, and whether the role may act as that one."""

    owner: str
    role: str
    ours: bool
    creates: bool


class Rights(Struct, frozen=True):
    schema: str
    lacks: tuple[Lack, ...]
    owner: Owner | None
    is_secured: bool = False
    """Whether row level security is on, and has roles of its own."""


async def read(patient: Patient) -> Rights:
    async with patient.bounds() as connection:
        lacks = await lacking(
            connection,
            patient.schema,
            tables=(CLIENT_TABLES, WORKER_TABLES),
            functions=newest_functions(),
        )
    owners = await patient.ask(Owner, "examine_owner", patient.schema)
    async with patient.bounds() as connection:
        is_secured = await rls.is_on(connection, patient.schema)
    return Rights(patient.schema, lacks, owners[0] if owners else None, is_secured)


def judge(rights: Rights, _: Limits) -> Sequence[Finding]:
    owner = rights.owner
    if owner is None:
        return [ok("There is nothing to have rights to yet.")]
    if rights.is_secured and not owner.ours:
        return [_secured(rights, owner)]
    if rights.lacks:
        return [_lacking(rights, owner)]
    if not (owner.ours and owner.creates):
        return [
            warning(
                f"The role {owner.role} may work off jobs, but neither make nor drop partitions of "
                f"the history: they belong to {owner.owner}.",
                "Run at least one worker as the owner, or let this role act as the owner:",
                f"GRANT {quote(owner.owner)} TO {quote(owner.role)};",
            )
        ]
    return [ok(f"The role {owner.role} may do all that clients and workers do.")]


def _secured(rights: Rights, owner: Owner) -> Finding:
    called, _ = worker_functions()
    lacks = [each for each in rights.lacks if each.function in called]
    worker, app = roles(rights.schema)
    if not lacks:
        return ok(f"Row level security is on, and the role {owner.role} may do what workers do.")
    if len({each.function for each in lacks}) < len(called):
        names = listed(sorted({each.name for each in lacks}))
        return error(
            f"Row level security is on, and the role {owner.role} lacks rights to {names}, so that "
            "no worker starts with it.",
            f"Grant them, as {owner.owner}:",
            *grants(lacks, rights.schema, owner.role),
        )
    if not any((each.name, each.privilege) == ("job", "INSERT") for each in rights.lacks):
        return ok(f"Row level security is on, and the role {owner.role} may do what an app does.")
    return error(
        f"Row level security is on, and the role {owner.role} may do nothing.",
        f"Make it a worker's, or an app's; as {owner.owner}:",
        f"GRANT {quote(worker)} TO {quote(owner.role)};",
        f"GRANT {quote(app)} TO {quote(owner.role)};",
    )


def _lacking(rights: Rights, owner: Owner) -> Finding:
    names = listed(sorted({each.name for each in rights.lacks}))
    return error(
        f"The role {owner.role} lacks rights to {names}, so it {_consequence(rights.lacks)}.",
        f"Grant them, as {owner.owner}:",
        *grants(rights.lacks, rights.schema, owner.role),
    )


def _consequence(lacks: Sequence[Lack]) -> str:
    for_workers_alone = all(
        each.kind == "table" and each.privilege not in CLIENT_TABLES.get(each.name, "").split()
        for each in lacks
    )
    return "can enqueue but not work" if for_workers_alone else "can neither enqueue nor work fully"


RIGHTS = Check(
    "rights",
    Group.DATABASE,
    "May the role do what a client and a worker must?",
    read,
    judge,
)
