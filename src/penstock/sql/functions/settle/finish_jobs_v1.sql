-- Move live jobs to history in a final state. This is the only place where a job ends. The same transaction updates what
-- depends on it: its batch by a delta, its unique key, its dependents and its waits for events. A job that has none of
-- these costs nothing extra: the deleted row says what it has.
--
-- The caller passes the token that it saw in each job (NULL for a waiting one), so a row that has changed in between is
-- left alone. p_settled says that the attempt itself wrote the outcome: it must have a token, which is kept, so that a
-- repetition of the same settle, after a commit with an unknown result, is recognised.
--
-- Whatever the statistics say (they may be of a time when the table was empty), the plan is this one: rows by id from
-- the primary key, then a hash join with the parameters.
CREATE FUNCTION :"schema".finish_jobs_v1(
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
    v_batches  bigint[];
    v_counts   text[];
    v_keyed    bigint[];
    v_parents  bigint[];
    v_states   text[];
    v_flows    bigint[];
    v_doomed   bigint[];
    v_waits    bigint[];
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
                  j.errors, j.step, g.error, g.result, j.state = 'blocked' AND j.pending = 0 AS waits
    ), kept AS (
        INSERT INTO job_history (
            id, batch, workflow, created_at, run_at, ready_at, attempted_at, finished_at, deadline,
            timeout, last_token, expires_on, attempt, failures, max_attempts, losses, max_losses,
            priority, args_version, has_children, state, queue, lane, task, tenant, subject,
            requested_by, reason, unique_key, tags, args, meta, retry, errors, step, result)
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
               g.step, g.result::jsonb
          FROM gone AS g
    )
    -- Read from the deleted rows, which are at hand: returning it from the insert would cost every job.
    SELECT count(*), array_agg(g.batch) FILTER (WHERE g.batch IS NOT NULL),
           array_agg(g.state) FILTER (WHERE g.batch IS NOT NULL), array_agg(g.id) FILTER (WHERE g.unique_key IS NOT NULL),
           array_agg(g.id) FILTER (WHERE g.has_children), array_agg(g.state) FILTER (WHERE g.has_children),
           array_agg(g.workflow) FILTER (WHERE g.has_children), array_agg(g.id) FILTER (WHERE g.waits)
      INTO v_finished, v_batches, v_counts, v_keyed, v_parents, v_states, v_flows, v_waits
      FROM gone AS g;
    IF v_batches IS NOT NULL THEN
        INSERT INTO batch_delta (batch, pending, completed, failed, cancelled)
        SELECT e.batch, -count(*), count(*) FILTER (WHERE e.state = 'completed'),
               count(*) FILTER (WHERE e.state = 'failed'), count(*) FILTER (WHERE e.state = 'cancelled')
          FROM unnest(v_batches, v_counts) AS e (batch, state) GROUP BY e.batch;
    END IF;
    IF v_keyed IS NOT NULL THEN
        PERFORM release_unique_keys_v1(v_keyed, p_now);
    END IF;
    IF v_waits IS NOT NULL THEN
        -- Waits whose event is being sent are skipped. They are deleted when the job comes back, or by a sweep.
        DELETE FROM event_wait AS w
         WHERE w.ctid = ANY (ARRAY(
               SELECT o.ctid FROM event_wait AS o WHERE o.job = ANY (v_waits) FOR UPDATE SKIP LOCKED));
    END IF;
    IF v_parents IS NOT NULL THEN
        v_doomed := release_dependents_v1(v_parents, v_states, v_flows, p_now);
        IF v_doomed IS NOT NULL THEN
            PERFORM finish_jobs_v1(v_doomed, NULL, array_fill('cancelled'::text, ARRAY[cardinality(v_doomed)]),
                                   array_fill('parent_failed'::text, ARRAY[cardinality(v_doomed)]), NULL, NULL, NULL, NULL,
                                   false, p_now);
        END IF;
    END IF;
    RETURN v_finished;
END
$$;
