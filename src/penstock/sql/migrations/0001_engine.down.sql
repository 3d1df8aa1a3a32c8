-- Takes everything of the engine away again, jobs included; the schema itself stays.
DROP FUNCTION :"schema".ensure_partitions_v1, :"schema".fence_v1, :"schema".completed_v1, :"schema".progress_v1,
    :"schema".delete_v1, :"schema".retry_v1, :"schema".cancel_v1, :"schema".sweep_v1, :"schema".elect_v1,
    :"schema".expire_v1, :"schema".promote_v1, :"schema".rescue_overtime_v1, :"schema".rescue_v1,
    :"schema".lose_unwritten_v1, :"schema".lose_v1, :"schema".mark_begun_v1, :"schema".close_lease_v1, :"schema".release_v1, :"schema".heartbeat_v1,
    :"schema".open_lease_v1, :"schema".settle_v1, :"schema".settle_unlocked_v1, :"schema".explain_unsettled_v1, :"schema".put_back_v1,
    :"schema".finish_v1, :"schema".find_jobs_v1, :"schema".history_dates_v1, :"schema".list_partitions_v1, :"schema".expires_on_v1, :"schema".claim_v1, :"schema".scan_lines_v1, :"schema".enqueue,
    :"schema".enqueue_v1, :"schema".hold_keys_v1, :"schema".announce_v1, :"schema".notify_due_v1,
    :"schema".notify_ready_v1, :"schema".keep_durable_v1;
DROP VIEW :"schema".job_all;
DROP TABLE :"schema".audit, :"schema".progress, :"schema".step, :"schema".schedule_fire, :"schema".schedule,
    :"schema"."grant", :"schema".concurrency_limit, :"schema".dependency, :"schema".batch_delta,
    :"schema".batch, :"schema".retention, :"schema".lane_setting, :"schema".queue, :"schema".unique_claim,
    :"schema".signal, :"schema".leader, :"schema".lease, :"schema".job_history, :"schema".job;
DROP FUNCTION :"schema".cover_retention_v1;
