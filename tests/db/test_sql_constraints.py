"""No client in any language can write an impossible row: each CHECK refuses what it is for."""

from typing import Any

import asyncpg
import pytest

from tests.db.engine import Engine

# For each table a row that is allowed, as expressions of SQL.
GOOD: dict[str, dict[str, str]] = {
    "job": {"state": "'ready'", "ready_at": "now()", "task": "'work'"},
    "job_history": {
        "id": "1",
        "created_at": "now()",
        "run_at": "now()",
        "finished_at": "now()",
        "expires_on": "current_date + 3",
        "attempt": "1",
        "failures": "0",
        "max_attempts": "5",
        "losses": "0",
        "max_losses": "3",
        "priority": "0",
        "args_version": "1",
        "has_children": "false",
        "state": "'completed'",
        "queue": "'default'",
        "lane": "''",
        "task": "'work'",
        "tenant": "''",
        "args": "'{}'",
    },
    "lease": {"worker": "'worker'", "expires_at": "now()"},
    "signal": {"lease": "1", "job": "1", "token": "gen_random_uuid()", "kind": "'cancelled'"},
    "unique_claim": {"kind": "'unique'", "tenant": "''", "key": "'one'", "job": "1"},
    "lane_setting": {"queue": "'default'", "lane": "'acme'"},
    "retention": {"state": "'failed'", "days": "1"},
    "batch": {"name": "'import'"},
    "dependency": {"workflow": "1", "parent": "1", "child": "2"},
    "workflow": {"name": "'import'"},
    "limit_setting": {"key": "'model'", "slots": "1"},
    "queue": {"name": "'mail'"},
    "plan": {"name": "'gold'"},
    "tenant_setting": {"tenant": "'acme'", "plan": "'gold'"},
    "grant": {"lease": "1", "key": "'model'", "slots": "1"},
    "schedule": {"name": "'nightly'", "request": """'{"task": "work"}'""", "cron": "'0 3 * * *'"},
    "schedule_fire": {"schedule": "'nightly'", "tick": "now()", "job": "1"},
    "step": {"job": "1", "name": "'fetch'"},
    "step_cache": {
        "tenant": "''",
        "key": "sha256('a')",
        "size": "1",
        "created_at": "now()",
        "used_at": "now()",
        "expires_at": "now()",
        "result": "'1'",
    },
    "api_key": {
        "id": "'0123abcd'",
        "name": "'ci'",
        "secret_hash": "sha256('a')",
        "scopes": "'{read}'",
        "created_by": "'ada'",
    },
    "person": {
        "name": "'ada'",
        "role": "'viewer'",
        "password_hash": "'x'",
        "created_by": "'root'",
    },
    "login": {
        "secret_hash": "sha256('a')",
        "person": "'ada'",
        "csrf": "'x'",
        "expires_at": "now()",
    },
    "event": {
        "tenant": "''",
        "name": "'paid'",
        "sent_at": "now()",
        "expires_at": "now()",
        "payload": "'1'",
    },
}

LEASE = {"lease": "1"}
TOKEN = {"token": "gen_random_uuid()"}
STARTED = {"attempted_at": "now()"}
RUNNING = {"state": "'running'"}

# Table, CHECK, and what makes the good row break it.
BROKEN: list[tuple[str, str, dict[str, str]]] = [
    ("job", "job_state_is_live", {"state": "'completed'"}),
    ("job", "job_state_is_live", {"state": "'sleeping'"}),
    ("job", "job_running_has_lease_and_token", RUNNING),
    ("job", "job_running_has_lease_and_token", RUNNING | LEASE | STARTED),
    ("job", "job_running_has_lease_and_token", RUNNING | TOKEN | STARTED),
    ("job", "job_running_has_lease_and_token", RUNNING | LEASE | TOKEN),
    ("job", "job_running_has_lease_and_token", LEASE),
    ("job", "job_running_has_lease_and_token", TOKEN),
    ("job", "job_running_has_lease_and_token", LEASE | TOKEN | STARTED),
    ("job", "job_ready_has_ready_at", {"ready_at": "NULL"}),
    ("job", "job_numbers_in_range", {"priority": "101"}),
    ("job", "job_numbers_in_range", {"priority": "-101"}),
    ("job", "job_numbers_in_range", {"attempt": "-1"}),
    ("job", "job_failures_within_attempts", {"failures": "6"}),
    ("job", "job_failures_within_attempts", {"failures": "-1"}),
    ("job", "job_losses_within_limit", {"losses": "4"}),
    ("job", "job_losses_within_limit", {"losses": "-1"}),
    ("job", "job_numbers_in_range", {"max_attempts": "0"}),
    ("job", "job_numbers_in_range", {"max_losses": "0"}),
    ("job", "job_numbers_in_range", {"pending": "-1"}),
    ("job", "job_timeout_in_range", {"timeout": "0"}),
    ("job", "job_timeout_in_range", {"timeout": "'infinity'"}),
    ("job", "job_timeout_in_range", {"timeout": "'NaN'"}),
    ("job", "job_numbers_in_range", {"args_version": "0"}),
    ("job", "job_json_in_shape", {"args": "'[]'"}),
    ("job", "job_json_in_shape", {"meta": "'1'"}),
    ("job", "job_json_in_shape", {"errors": "'{}'"}),
    ("job", "job_names_not_empty", {"task": "''"}),
    ("job", "job_names_not_empty", {"queue": "''"}),
    ("job_history", "job_history_state_is_final", {"state": "'running'", "reason": "'x'"}),
    ("job_history", "job_history_reason_given", {"state": "'failed'"}),
    ("job_history", "job_history_reason_given", {"state": "'cancelled'"}),
    ("job_history", "job_history_failures_within_attempts", {"failures": "6"}),
    ("job_history", "job_history_losses_within_limit", {"losses": "4"}),
    ("lease", "lease_kind_known", {"kind": "'robot'"}),
    ("lease", "lease_info_is_object", {"info": "'[]'"}),
    ("signal", "signal_kind_known", {"kind": "'hello'"}),
    ("unique_claim", "unique_claim_kind_known", {"kind": "'other'"}),
    ("unique_claim", "unique_claim_idempotency_expires", {"kind": "'idempotency'"}),
    ("lane_setting", "lane_setting_weight_positive", {"weight": "0"}),
    ("retention", "retention_state_is_final", {"state": "'ready'"}),
    ("retention", "retention_days_in_range", {"days": "401"}),
    ("retention", "retention_days_in_range", {"days": "-1"}),
    ("batch", "batch_finished_only_when_closed", {"finished_at": "now()"}),
    ("batch", "batch_meta_is_object", {"meta": "'[]'"}),
    ("batch", "batch_callbacks_is_object", {"callbacks": "'[]'"}),
    ("batch", "batch_cancelled_only_when_closed", {"cancelled_at": "now()"}),
    ("workflow", "workflow_meta_is_object", {"meta": "'[]'"}),
    ("dependency", "dependency_not_on_itself", {"child": "1"}),
    ("dependency", "dependency_on_failure_known", {"on_failure": "'explode'"}),
    ("lane_setting", "lane_setting_weight_in_range", {"weight": "1001"}),
    ("lane_setting", "lane_setting_late_after_positive", {"late_after": "0"}),
    ("lane_setting", "lane_setting_windows_is_object", {"windows": "'[]'"}),
    ("queue", "queue_ageing_positive", {"ageing": "0"}),
    ("queue", "queue_late_after_positive", {"late_after": "0"}),
    ("queue", "queue_windows_is_object", {"windows": "'[]'"}),
    ("queue", "queue_lane_key_known", {"lane_key": "'mood'"}),
    ("queue", "queue_lane_key_known", {"lane_key": "'args.'"}),
    ("plan", "plan_priority_in_range", {"priority": "101"}),
    ("plan", "plan_weight_in_range", {"weight": "0"}),
    ("plan", "plan_late_after_positive", {"late_after": "0"}),
    ("tenant_setting", "tenant_setting_late_after_positive", {"late_after": "0"}),
    ("limit_setting", "limit_setting_slots_not_negative", {"slots": "-1"}),
    ("limit_setting", "limit_setting_rate_not_negative", {"rate": "-1", "burst": "1"}),
    ("limit_setting", "limit_setting_burst_with_rate", {"rate": "1"}),
    ("limit_setting", "limit_setting_burst_with_rate", {"rate": "1", "burst": "0"}),
    ("limit_setting", "limit_setting_limits_something", {"slots": "NULL"}),
    ("grant", "grant_slots_not_negative", {"slots": "0"}),
    ("grant", "grant_slots_not_negative", {"slots": "1", "wanted": "-1"}),
    ("schedule", "schedule_cron_or_interval", {"every": "60"}),
    ("schedule", "schedule_cron_or_interval", {"cron": "NULL"}),
    ("schedule", "schedule_interval_positive", {"cron": "NULL", "every": "0"}),
    ("schedule", "schedule_overlap_known", {"overlap": "'maybe'"}),
    ("schedule", "schedule_catch_up_known", {"catch_up": "'maybe'"}),
    ("schedule", "schedule_jitter_not_negative", {"jitter": "-1"}),
    ("schedule", "schedule_wins_known", {"wins": "'chance'"}),
    ("schedule", "schedule_edited_only_if_declared", {"edited_at": "now()"}),
    ("schedule", "schedule_request_names_a_task", {"request": """'{"task": 1}'"""}),
    ("schedule_fire", "schedule_fire_kind_known", {"kind": "'chance'"}),
    ("schedule_fire", "schedule_fire_why_known", {"why": "'rain'", "job": "NULL"}),
    ("schedule_fire", "schedule_fire_job_or_why", {"job": "NULL"}),
    ("step", "step_kind_known", {"kind": "'dance'"}),
    ("step_cache", "step_cache_key_is_sha256", {"key": "'a'"}),
    ("event", "event_name_not_empty", {"name": "''"}),
    ("api_key", "api_key_id_is_a_word", {"id": "'A B'"}),
    ("api_key", "api_key_name_not_empty", {"name": "''"}),
    ("api_key", "api_key_secret_hash_is_sha256", {"secret_hash": "'a'"}),
    ("api_key", "api_key_scopes_are_known", {"scopes": "'{dance}'"}),
    ("api_key", "api_key_tenant_not_empty", {"tenant": "''"}),
    ("api_key", "api_key_admin_has_no_tenant", {"tenant": "'acme'", "scopes": "'{admin}'"}),
    ("person", "person_name_is_a_word", {"name": "'key:ada'"}),
    ("person", "person_role_is_known", {"role": "'king'"}),
    ("login", "login_secret_hash_is_sha256", {"secret_hash": "'a'"}),
]

EVERY_CHECK = """
SELECT c.conname
  FROM pg_constraint AS c JOIN pg_class AS r ON r.oid = c.conrelid
 WHERE c.connamespace = 'penstock'::regnamespace AND c.contype = 'c' AND NOT r.relispartition
   AND r.relname <> 'setting_version'  -- whose one row is there already
"""


async def insert(engine: Engine, table: str, row: dict[str, Any]) -> None:
    columns = ", ".join(f'"{name}"' for name in row)
    await engine.connection.execute(
        f'INSERT INTO penstock."{table}" ({columns}) VALUES ({", ".join(row.values())})'
    )


async def refusing_check(engine: Engine, table: str, row: dict[str, str]) -> str | None:
    try:
        async with engine.connection.transaction():
            await insert(engine, table, row)
    except asyncpg.CheckViolationError as error:
        return str(error.constraint_name)
    return None


async def test_each_check_refuses_the_row_it_is_for(engine: Engine) -> None:
    refused_by = [
        (table, await refusing_check(engine, table, GOOD[table] | broken), broken)
        for table, _, broken in BROKEN
    ]
    assert refused_by == BROKEN


@pytest.mark.parametrize("table", GOOD)
async def test_the_row_that_is_broken_is_good_otherwise(engine: Engine, table: str) -> None:
    await insert(engine, table, GOOD[table])


async def test_no_check_is_left_without_a_case(engine: Engine) -> None:
    rows = await engine.connection.fetch(EVERY_CHECK)
    assert {row["conname"] for row in rows} == {check for _, check, _ in BROKEN}


async def test_a_running_row_is_complete(engine: Engine) -> None:
    await insert(engine, "job", GOOD["job"] | RUNNING | LEASE | TOKEN | STARTED)
