"""A row for every table, of one tenant or of another."""

from typing import Any

TODAY = "(statement_timestamp() AT TIME ZONE 'UTC')::date"

# In the order in which they depend on each other. A table that is not here fails a test.
SEEDS = {
    "lease": "INSERT INTO penstock.lease (id, worker, expires_at)"
    " VALUES ({n}, 'worker of {t}', now() + interval '1 hour')",
    "job": "INSERT INTO penstock.job (id, task, tenant, state, lease, token, attempted_at)"
    " VALUES ({n}, 'work', '{t}', 'running', {lease}, '{token}', now())",
    "job_history": "INSERT INTO penstock.job_history (id, created_at, run_at, finished_at,"
    " expires_on, attempt, failures, max_attempts, losses, max_losses, priority, args_version,"
    " has_children, state, queue, lane, task, tenant, args) VALUES ({n} + 100, now(), now(), now(),"
    f" {TODAY} + 7, 1, 0, 5, 0, 3, 0, 1, false, 'completed', 'default', '', 'work', '{{t}}',"
    " '{{}}')",
    "signal": "INSERT INTO penstock.signal (lease, job, token, kind)"
    " VALUES ({lease}, {job}, gen_random_uuid(), 'cancelled')",
    "unique_claim": "INSERT INTO penstock.unique_claim (kind, tenant, key, job)"
    " VALUES ('unique', '{t}', 'key {n}', {job})",
    "progress": "INSERT INTO penstock.progress (job, done) VALUES ({n_of_job}, 1)",
    "step": "INSERT INTO penstock.step (job, name) VALUES ({job}, 'step {n}')",
    "step_cache": "INSERT INTO penstock.step_cache (tenant, key, result, size, created_at, used_at,"
    " expires_at) VALUES ('{t}', sha256('{n}'), '1', 1, now(), now(), now())",
    "event": "INSERT INTO penstock.event (tenant, name, payload, sent_at, expires_at)"
    " VALUES ('{t}', 'event {n}', '1', now(), now() + interval '1 hour')",
    "event_wait": "INSERT INTO penstock.event_wait (job, step, tenant, name, after_event)"
    " VALUES ({job}, 'event {n}:1', '{t}', 'event {n}', 0)",
    "leader": "INSERT INTO penstock.leader (role, lease, elected_at, expires_at)"
    " VALUES ('role {n}', {lease}, now(), now())",
    "queue": "INSERT INTO penstock.queue (name) VALUES ('queue {n}')",
    "lane_setting": "INSERT INTO penstock.lane_setting (queue, lane) VALUES ('queue {n}', '{t}')",
    "limit_setting": "INSERT INTO penstock.limit_setting (key, slots)"
    " VALUES ('lane:queue {n}:{t}', 1)",
    "grant": """INSERT INTO penstock."grant" (lease, key, slots)"""
    " VALUES ({lease}, 'lane:queue {n}:{t}', 1)",
    "bucket": "INSERT INTO penstock.bucket (key, level, filled_at) VALUES ('{t} {n}', 1, now())",
    "plan": "INSERT INTO penstock.plan (name, priority) VALUES ('plan of {t} {n}', 10)",
    "tenant_setting": "INSERT INTO penstock.tenant_setting (tenant, plan)"
    " VALUES ('{name}', 'plan of {t} {n}')",
    "setting_version": "INSERT INTO penstock.setting_version DEFAULT VALUES ON CONFLICT DO NOTHING",
    "retention": "INSERT INTO penstock.retention (queue, tenant, state, days)"
    " VALUES ('queue {n}', '{t}', 'completed', 7)",
    "batch": "INSERT INTO penstock.batch (id, tenant) VALUES ({n}, '{t}')",
    "batch_delta": "INSERT INTO penstock.batch_delta (batch) VALUES ({batch})",
    "workflow": "INSERT INTO penstock.workflow (id, tenant) VALUES ({n}, '{t}')",
    "dependency": "INSERT INTO penstock.dependency (workflow, parent, child)"
    " VALUES ({batch}, {job}, {n} + 1000)",
    "schedule": "INSERT INTO penstock.schedule (name, tenant, every, request)"
    """ VALUES ('schedule {n}', '{t}', 60, '{{"task": "work"}}')""",
    "schedule_fire": "INSERT INTO penstock.schedule_fire (schedule, tick, why)"
    " VALUES ('schedule {batch}', now() + interval '{n} s', 'missed')",
    "audit": "INSERT INTO penstock.audit (actor, action, tenant)"
    " VALUES ('somebody', 'looked', '{t}')",
    "api_key": "INSERT INTO penstock.api_key (id, name, secret_hash, scopes, tenant, created_by)"
    " VALUES ('key0000{n}', 'key {n}', sha256('{n}'), '{{read}}', '{t}', 'somebody')",
    "person": "INSERT INTO penstock.person (name, role, password_hash, created_by)"
    " VALUES ('person{n}', 'viewer', 'x', 'somebody')",
    "login": "INSERT INTO penstock.login (secret_hash, person, csrf, expires_at)"
    " VALUES (sha256('{n}'), 'person{n}', 'x', now() + interval '1 hour')",
    "login_failure": "INSERT INTO penstock.login_failure (subject, last_at, until)"
    " VALUES (sha256('{n}'), now(), now())",
    "migration": "INSERT INTO penstock.migration (number, name) VALUES (1000 + {n}, 'x')"
    " ON CONFLICT DO NOTHING",
}

_FIRST = {"a": 1, "b": 2}


def values(tenant: str, number: int | None = None) -> dict[str, Any]:
    """What a seed is filled with: for the tenant's row, or for another with this number."""
    own = _FIRST[tenant]
    n = number or own
    return {
        "t": tenant,
        "n": n,
        "lease": own,
        "job": own,
        "token": f"00000000-0000-0000-0000-{n:012}",
        "batch": own,
        "n_of_job": own if number is None else own + 100,  # its final job has no progress yet
        "name": tenant if number is None else f"{tenant}{number}",
    }
