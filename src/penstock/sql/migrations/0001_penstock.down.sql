-- Takes everything away again, jobs included; the schema itself stays, and the list of migrations.
DROP FUNCTION
    :"schema".try_login_v1, :"schema".drop_partition_v1, :"schema".ensure_partitions_v1, :"schema".history_dates_v1,
    :"schema".list_partitions_v1, :"schema".expires_on_v1, :"schema".sweep_v1, :"schema".expire_v1,
    :"schema".promote_v1, :"schema".elect_v1, :"schema".purge_v1, :"schema".redrive_v1, :"schema".dead_v1,
    :"schema".delete_v1, :"schema".retry_v1, :"schema".cancel_v1, :"schema".note_v1, :"schema".match_jobs_v1,
    :"schema".find_jobs_v1, :"schema".sweep_fires_v1, :"schema".run_schedule_v1, :"schema".fire_v1,
    :"schema".fire_schedule_v1, :"schema".fire_tick_v1, :"schema".overlap_v1, :"schema".due_v1,
    :"schema".sync_schedules_v1, :"schema".sweep_events_v1, :"schema".wake_waits_v1, :"schema".send_event_v1,
    :"schema".wake_waiters_v1, :"schema".wake_jobs_v1, :"schema".await_event_v1, :"schema".hold_waits_v1,
    :"schema".event_key_v1, :"schema".sleep_v1, :"schema".sweep_cache_v1, :"schema".share_step_v1,
    :"schema".recall_step_v1, :"schema".sweep_steps_v1, :"schema".save_step_v1, :"schema".read_steps_v1,
    :"schema".hold_attempt_v1, :"schema".extend_from_v1, :"schema".extend_v1, :"schema".name_steps_v1,
    :"schema".read_parents_v1, :"schema".retry_workflow_v1, :"schema".cancel_workflow_v1, :"schema".unblock_v1,
    :"schema".wait_again_v1, :"schema".doom_v1, :"schema".free_children_v1, :"schema".depend_v1,
    :"schema".refuse_cycle_v1, :"schema".find_cycle_v1, :"schema".join_workflow_v1, :"schema".workflow_jobs_v1,
    :"schema".cancel_batch_v1, :"schema".close_batch_v1, :"schema".fold_v1, :"schema".fold_batches_v1,
    :"schema".call_back_v1, :"schema".join_batch_v1, :"schema".open_bucket_v1, :"schema".close_bucket_v1,
    :"schema".correct_v1, :"schema".reserve_v1, :"schema".take_v1, :"schema".fill_bucket_v1, :"schema".grant_v1,
    :"schema".lock_grants_v1, :"schema".limit_v1, :"schema".rescue_overtime_v1, :"schema".rescue_v1,
    :"schema".lose_unwritten_v1, :"schema".lose_v1, :"schema".close_lease_v1, :"schema".release_v1,
    :"schema".fence_v1, :"schema".heartbeat_v1, :"schema".open_lease_v1, :"schema".progress_v1,
    :"schema".completed_v1, :"schema".settle_v1, :"schema".settle_unlocked_v1, :"schema".explain_unsettled_v1,
    :"schema".put_back_v1, :"schema".finish_v1, :"schema".unserved_v1, :"schema".late_v1, :"schema".rules_version_v1,
    :"schema".rules_v1, :"schema".window_v1, :"schema".is_paused_v1, :"schema".move_v1, :"schema".mark_begun_v1,
    :"schema".claim_v1, :"schema".scan_lines_v1, :"schema".release_keys_v1, :"schema".replace_v1,
    :"schema".be_unique_v1, :"schema".hold_unique_v1, :"schema".choose_unique_v1, :"schema".enqueue_stored_v1,
    :"schema".enqueue, :"schema".enqueue_v1, :"schema".hold_keys_v1, :"schema".place_v1, :"schema".lane_v1,
    :"schema".lane_key_v1, :"schema".announce_v1, :"schema".notify_due_v1, :"schema".notify_ready_v1,
    :"schema".keep_durable_v1;
DROP VIEW :"schema".job_all;
DROP TABLE
    :"schema".login_failure, :"schema".login, :"schema".person, :"schema".api_key, :"schema".audit,
    :"schema".progress, :"schema".event_wait, :"schema".event, :"schema".step_cache, :"schema".step,
    :"schema".schedule_fire, :"schema".schedule, :"schema".dependency, :"schema".workflow, :"schema".batch_delta,
    :"schema".batch, :"schema".retention, :"schema".setting_version, :"schema".bucket, :"schema"."grant",
    :"schema".limit_setting, :"schema".tenant_setting, :"schema".plan, :"schema".lane_setting, :"schema".queue,
    :"schema".unique_claim, :"schema".signal, :"schema".leader, :"schema".lease, :"schema".job_history, :"schema".job;
-- Triggers have gone with their tables.
DROP FUNCTION
    :"schema".settings_changed_v1, :"schema".schedule_changed_v1, :"schema".cover_retention_v1;
