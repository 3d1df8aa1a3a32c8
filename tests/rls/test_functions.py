"""Who may call which function, and that none lets one tenant across to another."""

from typing import Any

import asyncpg
import pytest

from tests.fixtures.database import connected
from tests.rls.conftest import APP_LOGIN, WORKER_LOGIN, Ground

# Every function of the schema, whatever its version: a new one comes with a decision in rls/on.sql.
# Workers' run with the owner's rights and take no tenant; apps' run with the caller's.
OF_WORKERS = {
    *(
        "claim",
        "scan_lanes",
        "is_queue_paused",
        "read_rules",
        "read_rules_version",
        "settle",
        "find_completed",
    ),
    *("mark_started", "move_to_lanes", "save_progress", "mark_outcome_lost"),
    *(
        "fence",
        "open_lease",
        "heartbeat",
        "release_jobs",
        "close_lease",
        "elect",
        "promote",
        "expire",
    ),
    *("rescue", "rescue_overtime", "sweep", "ensure_partitions", "drop_partition"),
    *(
        "list_unserved_queues",
        "grant_slots",
        "take_tokens",
        "reserve_budget",
        "adjust_budget",
        "close_bucket",
        "fold",
    ),
    *("sync_schedules", "list_due_schedules", "fire_schedules", "sweep_fires"),
    *("read_steps", "save_step", "sweep_steps", "recall_step", "share_step", "sweep_cache"),
    *("read_parents", "extend_own_workflow"),
    *("sleep", "await_event", "wake_due_waits", "sweep_events"),
}
OF_APPS = {
    *(
        "enqueue",
        "claim_idempotency_keys",
        "assign_lanes",
        "lane",
        "lane_key",
        "notify_enqueued",
        "notify_ready",
        "notify_due",
    ),
    *(
        "commit_durably",
        "cancel",
        "finish_jobs",
        "retry",
        "delete",
        "only_failed",
        "redrive",
        "purge",
        "owns_job",
    ),
    *("is_shared_batch", "write_audit"),
    *("claim_unique_keys", "choose_unique", "apply_unique", "replace_jobs", "release_unique_keys"),
    *("join_batch", "close_batch", "cancel_batch"),
    *("add_dependencies", "refuse_cycle", "release_dependents", "restore_dependencies"),
    *(
        "unblock",
        "join_workflow",
        "find_cycle",
        "resolve_steps",
        "extend_workflow",
        "dependents_to_cancel",
    ),
    *("cancel_workflow", "retry_workflow"),
    *("send_event", "wake_waiters", "wake_jobs", "event_lock_key"),
    *("find_jobs", "match_jobs", "workflow_jobs", "history_dates", "list_partitions", "expires_on"),
}
# The policies' own must see what they tell of; a note is written where apps do not even read.
AS_OWNER = {"owns_job", "is_shared_batch", "write_audit"}
# Called by those, or by people who change settings and look at all tenants.
OF_THE_OWNER = {
    *("fold_batches", "enqueue_callback"),
    *(
        "enqueue_stored",
        "reschedule",
        "settle_unlocked",
        "explain_unsettled",
        "mark_worker_lost",
        "cover_retention",
    ),
    *("schedule_changed", "schedule_overlap", "fire_tick", "fire_schedule", "run_schedule"),
    *("lock_attempt", "lock_event_waits", "try_login"),
    *(
        "settings_changed",
        "get_limit",
        "lock_grants",
        "fill_bucket",
        "open_bucket",
        "check_windows",
        "lateness",
    ),
}

FUNCTIONS = """
SELECT p.oid, p.oid::regprocedure::text AS signature, p.proname AS name,
       regexp_replace(p.proname, '_v[0-9]+$', '') AS verb, p.prosecdef AS runs_as_owner,
       p.prorettype = 'trigger'::regtype AS is_trigger,
       coalesce(p.proconfig, '{}') AS settings, pg_get_userbyid(p.proowner) AS owner,
       (SELECT string_agg('NULL::' || format_type(a.type, NULL), ', ' ORDER BY a.ord)
          FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (type, ord)) AS nothing
  FROM pg_proc AS p WHERE p.pronamespace = 'penstock'::regnamespace ORDER BY p.proname
"""
MAY_CALL = "SELECT has_function_privilege($1::text, $2::oid, 'EXECUTE')"

# How a tenant tries to reach another through each function of apps, and what comes of it. b's jobs
# are 2, which runs, and 102, which has completed. None stands for a refusal.
# What answers with nothing.
DID = "SELECT count(*) FROM (SELECT penstock.{}) AS did"
CROSSINGS: dict[str, list[tuple[str, Any]]] = {
    "enqueue": [
        ("SELECT penstock.enqueue('work', tenant => 'b')", None),
        ("SELECT id FROM penstock.enqueue_v1('{work}', '{\"{}\"}', p_tenants => '{b}')", None),
        ("SELECT id FROM penstock.enqueue_v1('{work}', '{\"{}\"}', p_batch => 2)", None),
    ],
    "claim_idempotency_keys": [
        ("SELECT job FROM penstock.claim_idempotency_keys_v1('{k}', '{b}', NULL, now())", None),
    ],
    # The priority of b's plan is 10.
    "assign_lanes": [
        (
            "SELECT (penstock.assign_lanes_v1('{work}', '{\"{}\"}', NULL, '{x}', NULL, NULL, '{b}',"
            " NULL, NULL, NULL)).priorities",
            [0],
        ),
    ],
    "cancel": [("SELECT answer FROM penstock.cancel_v1('{2}')", "missing")],
    "retry": [
        ("SELECT answer FROM penstock.retry_v1('{102}')", "missing"),
    ],
    "delete": [
        ("SELECT answer FROM penstock.delete_v1('{102}')", "missing"),
    ],
    "find_jobs": [("SELECT count(*) FROM penstock.find_jobs_v1('{2, 102}')", 0)],
    "match_jobs": [
        (
            "SELECT count(*) FROM penstock.match_jobs_v1(NULL, NULL, NULL, 'b', NULL, NULL, NULL,"
            " NULL, NULL, NULL, NULL, NULL, NULL, NULL, 100)",
            0,
        ),
    ],
    "workflow_jobs": [("SELECT count(*) FROM penstock.workflow_jobs_v1('{1, 101}')", 0)],
    "history_dates": [("SELECT penstock.history_dates_v1('{102}') IS NULL", True)],
    # The days on which jobs expire are no secret: they are those of every tenant.
    "list_partitions": [("SELECT cardinality(penstock.list_partitions_v1()) > 0", True)],
    "only_failed": [("SELECT penstock.only_failed_v1('{102}')", [])],
    "redrive": [("SELECT answer FROM penstock.redrive_v1('{102}')", "missing")],
    "write_audit": [("SELECT penstock.write_audit_v1('x', 'purge', 'b', NULL, NULL)", "a")],
    "purge": [("SELECT answer FROM penstock.purge_v1('{102}')", "missing")],
    "finish_jobs": [
        (
            "SELECT penstock.finish_jobs_v1('{2}', '{00000000-0000-0000-0000-000000000002}',"
            " '{cancelled}', '{x}', NULL, NULL, NULL, NULL, false, now())",
            0,
        ),
        (
            "SELECT penstock.finish_jobs_v1('{2}', '{00000000-0000-0000-0000-000000000002}',"
            " '{cancelled}', '{x}', NULL, NULL, NULL, NULL, false, now())",
            0,
        ),
    ],
    "unblock": [("SELECT answer FROM penstock.unblock_v1('{2}')", "missing")],
    "close_batch": [("SELECT answer FROM penstock.close_batch_v1('{2}')", "missing")],
    "cancel_batch": [("SELECT found FROM penstock.cancel_batch_v1(2, 0, 10)", 0)],
    "join_batch": [("SELECT penstock.join_batch_v1(2, 1, '{a}')", None)],
    "apply_unique": [
        (
            "SELECT (penstock.apply_unique_v1(ARRAY['{\"key\": \"key 2\"}'], '{b}', NULL, '{7}',"
            " '{t}', now())).new",
            None,
        ),
    ],
    "claim_unique_keys": [
        (
            "SELECT job FROM"
            " penstock.claim_unique_keys_v1('{7}', '{key 2}', '{b}', '{\"{}\"}', now())",
            None,
        ),
    ],
    "release_unique_keys": [(DID.format("release_unique_keys_v1('{2}', now())"), 1)],
    "release_dependents": [
        ("SELECT penstock.release_dependents_v1('{2}', '{completed}', '{2}', now()) IS NULL", True),
    ],
    "restore_dependencies": [(DID.format("restore_dependencies_v1('{2}', '{2}')"), 1)],
    "refuse_cycle": [(DID.format("refuse_cycle_v1('{2}', '{2}')"), 1)],
    "replace_jobs": [
        (
            DID.format(
                "replace_jobs_v1('{2}', '{t}', '{x}', '{\"{}\"}', NULL, NULL, NULL, NULL, NULL,"
                " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, now())"
            ),
            1,
        ),
    ],
    "add_dependencies": [
        (
            "SELECT ord FROM"
            " penstock.add_dependencies_v1('{7}', '{t}', ARRAY['[{\"job\": 2}]'], NULL, 1)",
            None,
        ),
        (
            "SELECT ord FROM"
            " penstock.add_dependencies_v1('{7}', '{t}', NULL, ARRAY['[{\"job\": 2}]'], 1)",
            None,
        ),
    ],
    "join_workflow": [("SELECT penstock.join_workflow_v1(2, '{a}')", None)],
    "extend_workflow": [
        (
            'SELECT id FROM penstock.extend_workflow_v1(2, \'[{"request": {"task": "work"},'
            ' "step": "a", "parents": [], "children": []}]\')',
            None,
        ),
    ],
    "resolve_steps": [("SELECT penstock.resolve_steps_v1(2, '{step 2}')", None)],
    "find_cycle": [("SELECT coalesce(penstock.find_cycle_v1(2), '{}')", [])],
    "dependents_to_cancel": [
        ("SELECT coalesce(penstock.dependents_to_cancel_v1('{2}', '{2}'), '{}')", [])
    ],
    "cancel_workflow": [("SELECT coalesce(penstock.cancel_workflow_v1(2), -1)", -1)],
    "retry_workflow": [("SELECT coalesce(penstock.retry_workflow_v1(2), -1)", -1)],
    "send_event": [("SELECT id FROM penstock.send_event_v1('event 2', p_tenant => 'b')", None)],
    # b's job 2 waits for its event; to a it is not there.
    "wake_waiters": [
        (
            "SELECT woken FROM penstock.wake_waiters_v1(1000, 'b', 'event 2', 10, false)",
            0,
        ),
    ],
    "wake_jobs": [("SELECT penstock.wake_jobs_v1('{2}', false)", [2])],
    "owns_job": [("SELECT penstock.owns_job_v1(2) OR penstock.owns_job_v1(102)", False)],
    "is_shared_batch": [("SELECT penstock.is_shared_batch_v1(2)", False)],
}
# Not allowed, another tenant's, or not there: a batch, a parent, a child, a workflow, a step of it.
REFUSALS = ("42501", "PS007", "PS011", "PS013", "PS014", "PS016", "PS017")
# Of the arguments alone: they read no table and write none.
HARMLESS = {
    "choose_unique",
    "lane",
    "lane_key",
    "notify_enqueued",
    "notify_ready",
    "notify_due",
    "commit_durably",
    "event_lock_key",
    "expires_on",
}


async def functions(ground: Ground) -> list[asyncpg.Record]:
    async with ground.owner() as owner:
        return await owner.fetch(FUNCTIONS)


async def test_there_is_a_decision_for_every_function(seeded: Ground) -> None:
    found = {row["verb"] for row in await functions(seeded)}
    assert found == OF_WORKERS | OF_APPS | OF_THE_OWNER
    assert set(CROSSINGS) | HARMLESS == OF_APPS
    tried = {f"penstock.{row['name']}(" for row in await functions(seeded)}
    untried = {
        name
        for name in tried
        if name.removeprefix("penstock.").rstrip("(").split("_v")[0] in CROSSINGS
        and not any(name in sql for each in CROSSINGS.values() for sql, _ in each)
    }
    assert untried == set()


async def test_a_function_is_called_by_those_it_is_for_alone(seeded: Ground) -> None:
    async with seeded.owner() as owner:
        for row in await owner.fetch(FUNCTIONS):
            verb = row["verb"]
            callers = {
                role
                for role in (WORKER_LOGIN, APP_LOGIN, "public")
                if await owner.fetchval(MAY_CALL, role, row["oid"])
            }
            expected = {WORKER_LOGIN} if verb in OF_WORKERS else {APP_LOGIN}
            assert callers == (set() if verb in OF_THE_OWNER else expected), row["signature"]
            assert row["runs_as_owner"] is (verb in OF_WORKERS | AS_OWNER), row["signature"]
            assert row["owner"] == "penstock"


async def test_security_definer_functions_pin_their_search_path(seeded: Ground) -> None:
    found = [row for row in await functions(seeded) if row["runs_as_owner"]]
    assert {row["verb"] for row in found} == OF_WORKERS | AS_OWNER
    for row in found:
        assert "search_path=penstock, pg_temp" in row["settings"], row["signature"]


async def test_an_app_is_refused_a_function_that_is_not_for_it(seeded: Ground) -> None:
    await expect_refused(seeded, seeded.app_url, OF_WORKERS | OF_THE_OWNER)


async def test_a_worker_is_refused_a_function_that_is_not_for_it(seeded: Ground) -> None:
    await expect_refused(seeded, seeded.worker_url, OF_APPS | OF_THE_OWNER)


async def expect_refused(ground: Ground, url: str, verbs: set[str]) -> None:
    found = [row for row in await functions(ground) if row["verb"] in verbs]
    async with connected(url) as connection:
        for row in found:
            if row["is_trigger"]:
                continue
            call = f'SELECT penstock."{row["name"]}"({row["nothing"] or ""})'
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
                await connection.execute(call)


async def test_a_tenant_does_not_cross_by_a_function(seeded: Ground) -> None:
    async with seeded.trying("a") as connection:
        for call, answer in [each for crossings in CROSSINGS.values() for each in crossings]:
            async with seeded.undone(connection):
                if answer is None:
                    with pytest.raises(asyncpg.PostgresError) as refused:
                        await connection.fetchval(call)
                    assert refused.value.sqlstate in REFUSALS, call
                    continue
                assert await connection.fetchval(call) == answer, call
                await connection.execute("RESET ROLE")
                found = await connection.fetch(
                    "SELECT id, state FROM penstock.job_all WHERE tenant = 'b' ORDER BY id"
                )
                assert [tuple(row) for row in found] == [(2, "running"), (102, "completed")], call


@pytest.mark.parametrize("tenant", [None, ""], ids=["none", "empty"])
async def test_without_a_tenant_an_apps_functions_reach_nothing(
    seeded: Ground, tenant: str | None
) -> None:
    for call, answer in (
        ("SELECT answer FROM penstock.cancel_v1('{1}')", "missing"),
        ("SELECT answer FROM penstock.retry_v1('{101}')", "missing"),
        ("SELECT answer FROM penstock.delete_v1('{101}')", "missing"),
        ("SELECT penstock.owns_job_v1(1)", False),
    ):
        async with seeded.trying(tenant) as connection:
            assert await connection.fetchval(call) == answer
    for call in ("penstock.enqueue('work')", "penstock.enqueue('work', tenant => 'a')"):
        async with seeded.trying(tenant) as connection:
            with pytest.raises(asyncpg.PostgresError) as refused:
                await connection.execute(f"SELECT {call}")
            assert refused.value.sqlstate == "PS008"
