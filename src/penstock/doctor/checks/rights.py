"""May the role do what a client and a worker must?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.migrate import rls
from penstock.migrate.compatibility import newest_functions
from penstock.sql import quote, roles
from penstock.wording import listed

# Functions run with the rights of who calls them, so these are the tables they touch.
CLIENT = {
    "batch": "SELECT INSERT UPDATE",
    "batch_delta": "SELECT INSERT",
    "batch_id_seq": "USAGE",
    "dependency": "SELECT INSERT UPDATE DELETE",
    "event": "SELECT INSERT",
    "event_id_seq": "USAGE",
    "event_wait": "SELECT UPDATE",
    "job": "SELECT INSERT UPDATE DELETE",
    "job_history": "SELECT INSERT UPDATE DELETE",
    "job_all": "SELECT",
    "job_id_seq": "USAGE",
    "limit_setting": "SELECT",
    "migration": "SELECT",
    "plan": "SELECT",
    "progress": "SELECT DELETE",
    "queue": "SELECT INSERT UPDATE",
    "retention": "SELECT",
    "setting_version": "SELECT UPDATE",
    "signal": "INSERT",
    "step": "SELECT DELETE",
    "tenant_setting": "SELECT",
    "unique_claim": "SELECT INSERT UPDATE DELETE",
    "workflow": "SELECT INSERT UPDATE",
    "workflow_id_seq": "USAGE",
}
WORKER = {
    "batch": "DELETE",
    "batch_delta": "DELETE",
    "bucket": "SELECT INSERT UPDATE DELETE",
    "event": "UPDATE DELETE",
    "event_wait": "INSERT DELETE",
    "grant": "SELECT INSERT UPDATE DELETE",
    "lane_setting": "SELECT",
    "leader": "SELECT INSERT UPDATE DELETE",
    "lease": "SELECT INSERT UPDATE DELETE",
    "progress": "INSERT UPDATE",
    "schedule": "SELECT INSERT UPDATE",
    "schedule_fire": "SELECT INSERT UPDATE DELETE",
    "signal": "SELECT DELETE",
    "step": "INSERT UPDATE",
    "step_cache": "SELECT INSERT UPDATE DELETE",
    "workflow": "DELETE",
}


class Lack(Struct, frozen=True):
    """A privilege that the role does not have."""

    kind: str
    name: str
    privilege: str


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
    needs = [
        (name, privilege)
        for table in (CLIENT, WORKER)
        for name, privileges in table.items()
        for privilege in privileges.split()
    ]
    names, privileges = zip(*needs, strict=True)
    lacks = await patient.ask(
        Lack,
        "examine_rights",
        patient.schema,
        list(names),
        list(privileges),
        newest_functions(),
    )
    owners = await patient.ask(Owner, "examine_owner", patient.schema)
    async with patient.bounds() as connection:
        is_secured = await rls.is_on(connection, patient.schema)
    return Rights(patient.schema, tuple(lacks), owners[0] if owners else None, is_secured)


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
    lacked = {
        (each.name.partition("(")[0].rpartition(".")[2], each.privilege) for each in rights.lacks
    }
    worker, app = roles(rights.schema)
    if ("claim_v3", "EXECUTE") not in lacked:
        return ok(f"Row level security is on, and the role {owner.role} may do what workers do.")
    if ("job", "INSERT") not in lacked:
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
        *_grants(rights, owner.role),
    )


def _consequence(lacks: Sequence[Lack]) -> str:
    for_workers_alone = all(
        each.kind == "table" and each.privilege not in CLIENT.get(each.name, "").split()
        for each in lacks
    )
    return "can enqueue but not work" if for_workers_alone else "can neither enqueue nor work fully"


def _grants(rights: Rights, role: str) -> list[str]:
    by_object = groupby(rights.lacks, key=lambda lack: (lack.kind, lack.name))
    return [
        f"GRANT {', '.join(lack.privilege for lack in lacks)} "
        f"ON {_object(rights.schema, kind, name)} TO {quote(role)};"
        for (kind, name), lacks in by_object
    ]


def _object(schema: str, kind: str, name: str) -> str:
    match kind:
        case "schema":
            return f"SCHEMA {quote(schema)}"
        case "function":
            return f"FUNCTION {name}"  # Postgres has quoted it, arguments and all.
        case "sequence":
            return f"SEQUENCE {quote(schema)}.{quote(name)}"
    return f"{quote(schema)}.{quote(name)}"


RIGHTS = Check(
    "rights",
    Group.DATABASE,
    "May the role do what a client and a worker must?",
    read,
    judge,
)
