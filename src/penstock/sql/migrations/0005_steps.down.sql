-- Takes durable steps and events away again. A job that waits for an event is ready: its handler fails, and says why.
UPDATE :"schema".job SET state = 'ready', ready_at = clock_timestamp()
 WHERE state = 'blocked' AND id IN (SELECT job FROM :"schema".event_wait);
DROP FUNCTION :"schema".sweep_events_v1, :"schema".wake_waits_v1, :"schema".await_event_v1,
    :"schema".send_event_v1, :"schema".wake_waiters_v1, :"schema".wake_jobs_v1, :"schema".event_key_v1,
    :"schema".sleep_v1, :"schema".sweep_cache_v1, :"schema".share_step_v1, :"schema".recall_step_v1,
    :"schema".sweep_steps_v1, :"schema".save_step_v1, :"schema".read_steps_v1, :"schema".hold_attempt_v1;
DELETE FROM :"schema".event_wait;
DELETE FROM :"schema".event;
DROP TABLE :"schema".step_cache;
DELETE FROM :"schema".step WHERE kind <> 'step';
