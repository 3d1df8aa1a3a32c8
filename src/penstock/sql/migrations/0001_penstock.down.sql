-- Remove everything, including jobs. The schema itself and the list of migrations stay.
DROP FUNCTION
    :"schema".try_login_v1, :"schema".drop_partition_v1, :"schema".ensure_partitions_v1, :"schema".history_dates_v1,
    :"schema".list_partitions_v1, :"schema".expires_on_v1, :"schema".sweep_v1, :"schema".expire_v1,
    :"schema".promote_v1, :"schema".elect_v1, :"schema".purge_v1, :"schema".redrive_v1, :"schema".only_failed_v1,
    :"schema".delete_v1, :"schema".retry_v1, :"schema".cancel_v1, :"schema".write_audit_v1, :"schema".match_jobs_v1,
    :"schema".find_jobs_v1, :"schema".sweep_fires_v1, :"schema".run_schedule_v1, :"schema".fire_schedules_v1,
    :"schema".fire_schedule_v1, :"schema".fire_tick_v1, :"schema".schedule_overlap_v1, :"schema".list_due_schedules_v1,
    :"schema".sync_schedules_v1, :"schema".sweep_events_v1, :"schema".wake_due_waits_v1, :"schema".send_event_v1,
    :"schema".wake_waiters_v1, :"schema".wake_jobs_v1, :"schema".await_event_v1, :"schema".lock_event_waits_v1,
    :"schema".event_lock_key_v1, :"schema".sleep_v1, :"schema".sweep_cache_v1, :"schema".share_step_v1,
    :"schema".recall_step_v1, :"schema".sweep_steps_v1, :"schema".save_step_v1, :"schema".read_steps_v1,
    :"schema".lock_attempt_v1, :"schema".extend_own_workflow_v1, :"schema".extend_workflow_v1, :"schema".resolve_steps_v1,
    :"schema".read_parents_v1, :"schema".retry_workflow_v1, :"schema".cancel_workflow_v1, :"schema".unblock_v1,
    :"schema".restore_dependencies_v1, :"schema".dependents_to_cancel_v1, :"schema".release_dependents_v1, :"schema".add_dependencies_v1,
    :"schema".refuse_cycle_v1, :"schema".find_cycle_v1, :"schema".join_workflow_v1, :"schema".workflow_jobs_v1,
    :"schema".cancel_batch_v1, :"schema".close_batch_v1, :"schema".fold_v1, :"schema".fold_batches_v1,
    :"schema".enqueue_callback_v1, :"schema".join_batch_v1, :"schema".open_bucket_v1, :"schema".close_bucket_v1,
    :"schema".adjust_budget_v1, :"schema".reserve_budget_v1, :"schema".take_tokens_v1, :"schema".fill_bucket_v1, :"schema".grant_slots_v1,
    :"schema".lock_grants_v1, :"schema".get_limit_v1, :"schema".rescue_overtime_v1, :"schema".rescue_v1,
    :"schema".mark_outcome_lost_v1, :"schema".mark_worker_lost_v1, :"schema".close_lease_v1, :"schema".release_jobs_v1,
    :"schema".fence_v1, :"schema".heartbeat_v1, :"schema".open_lease_v1, :"schema".save_progress_v1,
    :"schema".find_completed_v1, :"schema".settle_v1, :"schema".settle_unlocked_v1, :"schema".explain_unsettled_v1,
    :"schema".reschedule_v1, :"schema".finish_jobs_v1, :"schema".list_unserved_queues_v1, :"schema".lateness_v1, :"schema".read_rules_version_v1,
    :"schema".read_rules_v1, :"schema".check_windows_v1, :"schema".is_queue_paused_v1, :"schema".move_to_lanes_v1, :"schema".mark_started_v1,
    :"schema".claim_v1, :"schema".scan_lanes_v1, :"schema".release_unique_keys_v1, :"schema".replace_jobs_v1,
    :"schema".apply_unique_v1, :"schema".claim_unique_keys_v1, :"schema".choose_unique_v1, :"schema".enqueue_stored_v1,
    :"schema".enqueue, :"schema".enqueue_v1, :"schema".claim_idempotency_keys_v1, :"schema".assign_lanes_v1, :"schema".lane_v1,
    :"schema".lane_key_v1, :"schema".notify_enqueued_v1, :"schema".notify_due_v1, :"schema".notify_ready_v1,
    :"schema".commit_durably_v1;
DROP VIEW :"schema".job_all;
DROP TABLE
    :"schema".login_failure, :"schema".login, :"schema".person, :"schema".api_key, :"schema".audit,
    :"schema".progress, :"schema".event_wait, :"schema".event, :"schema".step_cache, :"schema".step,
    :"schema".schedule_fire, :"schema".schedule, :"schema".dependency, :"schema".workflow, :"schema".batch_delta,
    :"schema".batch, :"schema".retention, :"schema".setting_version, :"schema".bucket, :"schema"."grant",
    :"schema".limit_setting, :"schema".tenant_setting, :"schema".plan, :"schema".lane_setting, :"schema".queue,
    :"schema".unique_claim, :"schema".signal, :"schema".leader, :"schema".lease, :"schema".job_history, :"schema".job;
-- These are functions of triggers, which were dropped with their tables.
DROP FUNCTION
    :"schema".settings_changed_v1, :"schema".schedule_changed_v1, :"schema".cover_retention_v1;
