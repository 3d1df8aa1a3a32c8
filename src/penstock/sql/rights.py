"""The rights that the roles of clients and workers need, for checks and GRANT statements."""

from __future__ import annotations

# Functions run with the rights of their caller, unless row level security is on. So callers need
# rights to all tables that the functions use.
CLIENT_TABLES = {
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
WORKER_TABLES = {
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

# The functions that a worker calls, in any version. Under row level security it may call no others,
# and these run with the owner's rights.
WORKER_FUNCTIONS = (
    *("claim", "scan_lanes", "is_queue_paused", "read_rules", "read_rules_version"),
    *("mark_started", "move_to_lanes", "settle", "mark_outcome_lost", "find_completed"),
    *("save_progress", "fence", "read_parents", "extend_own_workflow", "read_steps"),
    *("save_step", "sweep_steps", "sleep", "recall_step", "share_step", "sweep_cache"),
    *("await_event", "wake_due_waits", "sweep_events", "open_lease", "heartbeat"),
    *("release_jobs", "close_lease", "elect", "promote", "expire", "fold", "rescue"),
    *("rescue_overtime", "sweep", "ensure_partitions", "drop_partition"),
    *("list_unserved_queues", "grant_slots", "take_tokens", "reserve_budget", "adjust_budget"),
    *("close_bucket", "sync_schedules", "list_due_schedules", "fire_schedules", "sweep_fires"),
)
