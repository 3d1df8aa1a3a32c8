-- Takes unique jobs, batches and workflows away again. Jobs stay, and belong to none; one that waits for its parents
-- is cancelled: nobody would wake it any more, and it must not run before them.
-- Counts that nobody keeps would be wrong for ever, and numbers are given anew if this migration comes back.
DELETE FROM :"schema".dependency;
DELETE FROM :"schema".batch_delta;
DELETE FROM :"schema".batch;
UPDATE :"schema".job SET batch = NULL, workflow = NULL, step = NULL, has_children = false
 WHERE batch IS NOT NULL OR workflow IS NOT NULL;
UPDATE :"schema".job_history SET batch = NULL, workflow = NULL, step = NULL, has_children = false
 WHERE batch IS NOT NULL OR workflow IS NOT NULL;
SELECT :"schema".finish_v2(
           array_agg(j.id), NULL, array_agg('cancelled'::text), array_agg('workflow_removed'::text), NULL, NULL, NULL, NULL,
           false, clock_timestamp())
  FROM :"schema".job AS j WHERE j.state = 'blocked' HAVING count(*) > 0;

DROP FUNCTION :"schema".redrive_v1, :"schema".purge_v1, :"schema".dead_v1, :"schema".note_v1;
DROP FUNCTION :"schema".extend_from_v1, :"schema".extend_v1, :"schema".name_steps_v1, :"schema".cancel_workflow_v1, :"schema".retry_workflow_v1, :"schema".read_parents_v1,
    :"schema".join_workflow_v1, :"schema".find_cycle_v1;
DROP FUNCTION :"schema".retry_v1, :"schema".delete_v1, :"schema".delete_v2;
\ir ../functions/retry_v1.sql
\ir ../functions/delete_v1.sql
\ir ../functions/delete_v2.sql
DROP FUNCTION :"schema".sweep_v3, :"schema".delete_v3, :"schema".unblock_v1, :"schema".retry_v2, :"schema".wait_again_v1,
    :"schema".close_batch_v1, :"schema".cancel_batch_v1, :"schema".fold_v1, :"schema".fold_batches_v1, :"schema".call_back_v1,
    :"schema".enqueue_stored_v1, :"schema".enqueue, :"schema".enqueue_v3, :"schema".depend_v1, :"schema".refuse_cycle_v1,
    :"schema".join_batch_v1, :"schema".replace_v1, :"schema".be_unique_v1, :"schema".hold_unique_v1,
    :"schema".choose_unique_v1, :"schema".claim_v3, :"schema".settle_v2, :"schema".settle_unlocked_v2,
    :"schema".put_back_v2, :"schema".hold_waits_v1;
-- For people and for other languages: enqueue one job from plain SQL. Forwards to the newest version.
CREATE FUNCTION :"schema".enqueue(
    task text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 5,
    timeout double precision DEFAULT 3600, tenant text DEFAULT '', subject text DEFAULT NULL,
    requested_by text DEFAULT NULL, tags text[] DEFAULT NULL, meta jsonb DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, args_version integer DEFAULT 1, lane text DEFAULT NULL,
    limits text[] DEFAULT NULL
) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT e.id FROM enqueue_v2(
        p_tasks => ARRAY[task], p_args => ARRAY[args::text], p_queues => ARRAY[queue], p_lanes => ARRAY[lane],
        p_limits => ARRAY[to_jsonb(limits)::text],
        p_args_versions => ARRAY[args_version::smallint],
        p_priorities => ARRAY[priority::smallint],
        p_delays => ARRAY[extract(epoch FROM delay)::double precision],
        p_run_ats => ARRAY[run_at], p_max_attempts => ARRAY[max_attempts],
        p_timeouts => ARRAY[timeout], p_tenants => ARRAY[tenant], p_subjects => ARRAY[subject],
        p_requested_bys => ARRAY[requested_by], p_tags => ARRAY[to_jsonb(tags)::text],
        p_metas => ARRAY[meta::text], p_deadlines => ARRAY[deadline],
        p_options => '{"notify": true}') AS e;
$$;

-- Move live jobs to history in a final state: the one place where a job ends.
--
-- The caller says which token it saw in each job (NULL for one that waits), so a row that has moved on in
-- between is left alone. p_settled says that the attempt itself wrote this:
-- it must have a token, which is kept, so that the same settle repeated after an unknown commit is known.
--
-- Whatever the statistics say (they may be from a moment when the table was empty), the plan is this one:
-- the rows by their ids from the primary key, then a hash join with what was given.
CREATE OR REPLACE FUNCTION :"schema".finish_v1(
    p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_failures smallint[],
    p_losses smallint[], p_errors text[], p_results text[], p_settled boolean, p_now timestamptz
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_today    date := (p_now AT TIME ZONE 'UTC')::date;
    v_custom   boolean := EXISTS (SELECT FROM retention);
    v_usually  date := expires_on_v1(v_today, 7);
    v_failed   date := expires_on_v1(v_today, 30);
    v_finished integer;
BEGIN
    WITH given AS (
        SELECT g.id, g.token, coalesce(g.state, 'completed') AS state, g.reason,
               coalesce(g.failure, 0) AS failure, coalesce(g.loss, 0) AS loss, g.error, g.result
          FROM unnest(p_ids, p_tokens, p_states, p_reasons, p_failures, p_losses, p_errors, p_results)
            AS g (id, token, state, reason, failure, loss, error, result)
         WHERE coalesce(g.state, 'completed') IN ('completed', 'failed', 'cancelled')
           AND (g.token IS NOT NULL OR NOT p_settled)
    ), gone AS (
        DELETE FROM job AS j
         USING given AS g
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token IS NOT DISTINCT FROM g.token
        RETURNING j.id, j.batch, j.workflow, j.created_at, j.run_at, j.ready_at, j.attempted_at,
                  j.deadline, j.timeout, j.token, j.last_token, j.attempt,
                  j.failures + g.failure AS failures, j.max_attempts,
                  j.losses + g.loss AS losses, j.max_losses, j.priority, j.args_version,
                  j.has_children, g.state, j.queue, j.lane, j.task, j.tenant, j.subject,
                  j.requested_by, g.reason, j.unique_key, j.tags, j.args, j.meta, j.retry,
                  j.errors, g.error, g.result
    )
    INSERT INTO job_history (
        id, batch, workflow, created_at, run_at, ready_at, attempted_at, finished_at, deadline,
        timeout, last_token, expires_on, attempt, failures, max_attempts, losses, max_losses,
        priority, args_version, has_children, state, queue, lane, task, tenant, subject,
        requested_by, reason, unique_key, tags, args, meta, retry, errors, result)
    SELECT g.id, g.batch, g.workflow, g.created_at, g.run_at, g.ready_at, g.attempted_at, p_now,
           g.deadline, g.timeout,
           CASE WHEN p_settled THEN g.token ELSE g.last_token END,
           coalesce(
               CASE WHEN v_custom THEN (SELECT expires_on_v1(v_today, r.days) FROM retention AS r
                 WHERE r.state = g.state AND r.queue IN (g.queue, '') AND r.tenant IN (g.tenant, '')
                 ORDER BY r.tenant = '', r.queue = ''
                 LIMIT 1) END,
               CASE g.state WHEN 'failed' THEN v_failed ELSE v_usually END),
           g.attempt, g.failures, g.max_attempts, g.losses, g.max_losses, g.priority,
           g.args_version, g.has_children, g.state, g.queue, g.lane, g.task, g.tenant, g.subject,
           g.requested_by, g.reason, g.unique_key, g.tags, g.args, g.meta, g.retry,
           CASE WHEN g.error IS NULL THEN g.errors
                ELSE coalesce(g.errors, '[]') || (g.error::jsonb || jsonb_build_object('at', p_now, 'began', g.attempted_at)) END,
           g.result::jsonb
      FROM gone AS g;
    GET DIAGNOSTICS v_finished = ROW_COUNT;
    RETURN v_finished;
END
$$;
DROP FUNCTION :"schema".finish_v2, :"schema".free_children_v1, :"schema".doom_v1, :"schema".release_keys_v1;

DROP FUNCTION :"schema".match_jobs_v1, :"schema".workflow_jobs_v1;
DROP INDEX :"schema".job_blocked, :"schema".job_batch, :"schema".job_workflow, :"schema".job_history_batch, :"schema".job_history_workflow;
ALTER TABLE :"schema".dependency DROP COLUMN satisfied, DROP COLUMN workflow;
DROP TABLE :"schema".workflow, :"schema".event_wait, :"schema".event;
ALTER TABLE :"schema".step
    DROP CONSTRAINT step_pkey, DROP CONSTRAINT step_kind_known, DROP COLUMN kind,
    ADD CONSTRAINT step_pkey PRIMARY KEY (job, name);
DROP INDEX :"schema".batch_created, :"schema".batch_unfinished, :"schema".batch_finished;
ALTER TABLE :"schema".batch
    DROP CONSTRAINT batch_meta_is_object, DROP CONSTRAINT batch_callbacks_is_object,
    DROP CONSTRAINT batch_cancelled_only_when_closed, DROP COLUMN cancelled_at,
    DROP COLUMN folded_at, DROP COLUMN rate, DROP COLUMN rate_weight,
    DROP COLUMN failure_job, DROP COLUMN success_job, DROP COLUMN end_job;
ALTER TABLE :"schema".unique_claim DROP COLUMN keep, DROP COLUMN until;
