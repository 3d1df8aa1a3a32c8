-- Run jobs again: a final job comes back under its id, with fresh attempts and without progress or result; a scheduled
-- job is due now.
-- Returns ready, running (nothing to do), blocked, held (its unique key belongs to another job), missing, or the final
-- state of a job that ended just now and is being changed by somebody else, or whose state is not among p_states.
--
-- The batch of a job counts it as pending again, by a delta as when it ended. The job waits for parents that are live,
-- including those that come back in the same call. Jobs that still wait, and had counted its end, wait for it again.
CREATE FUNCTION :"schema".retry_v1(
    p_ids bigint[], p_now timestamptz DEFAULT NULL, p_states text[] DEFAULT '{completed,failed,cancelled}'
) RETURNS TABLE (id bigint, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_ids     bigint[];
    v_dates   date[];
    v_holds   boolean := false;
    v_held    bigint[] := '{}';
    v_answers text[];
    v_linked  bigint[];
    v_parents bigint[];
BEGIN
    UPDATE job AS j
       SET state = 'ready', run_at = v_now, ready_at = coalesce(p_now, clock_timestamp()), stuck_since = NULL
     WHERE j.id = ANY (p_ids) AND j.state = 'scheduled';
    -- Repeat if one of them is final now: it was running a moment ago and has ended in between.
    LOOP
        v_dates := history_dates_v1(p_ids);
        -- One call at a time for each workflow: a job that comes back must see whether its parents do.
        PERFORM 1 FROM workflow AS w
          WHERE w.id = ANY (ARRAY(SELECT h.workflow FROM job_history AS h
                                   WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) AND h.workflow IS NOT NULL))
          ORDER BY w.id FOR NO KEY UPDATE;
        -- The first time, all callers lock rows in the same order and wait. Later, when this call holds some locks, it
        -- waits for nobody, who might wait for these. An optimization fence keeps the check of the state apart: next to
        -- the ids it could lead the planner to the index of all failed jobs.
        IF NOT v_holds THEN
            v_ids := ARRAY(
                WITH named AS MATERIALIZED (
                    SELECT h.id, h.state FROM job_history AS h
                     WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) ORDER BY h.id FOR UPDATE
                )
                SELECT n.id FROM named AS n WHERE n.state = ANY (p_states) ORDER BY n.id);
        ELSE
            v_ids := ARRAY(
                WITH named AS MATERIALIZED (
                    SELECT h.id, h.state FROM job_history AS h
                     WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) FOR UPDATE SKIP LOCKED
                )
                SELECT n.id FROM named AS n WHERE n.state = ANY (p_states));
        END IF;
        WITH taken AS (
            INSERT INTO unique_claim AS u (kind, tenant, key, job)
            SELECT DISTINCT ON (h.tenant, h.unique_key) 'unique', h.tenant, h.unique_key, h.id
              FROM job_history AS h
             WHERE h.id = ANY (v_ids) AND h.expires_on = ANY (v_dates) AND h.unique_key IS NOT NULL
               -- ON CONFLICT would lock the key of a job that this call does not concern.
               AND (SELECT o.job FROM unique_claim AS o
                     WHERE o.kind = 'unique' AND o.tenant = h.tenant AND o.key = h.unique_key
                       AND o.job <> h.id AND (o.expires_at <= v_now) IS NOT TRUE) IS NULL
             ORDER BY h.tenant, h.unique_key, h.id
            ON CONFLICT (kind, tenant, key) DO UPDATE SET job = excluded.job, expires_at = NULL
             WHERE u.job = excluded.job OR u.expires_at <= v_now
            RETURNING u.job
        )
        SELECT coalesce(array_agg(h.id), '{}') INTO v_held
          FROM job_history AS h
         WHERE h.id = ANY (v_ids) AND h.expires_on = ANY (v_dates) AND h.unique_key IS NOT NULL AND h.id NOT IN (SELECT t.job FROM taken AS t);
        WITH back AS (
            DELETE FROM job_history AS h
             WHERE h.id = ANY (v_ids) AND h.expires_on = ANY (v_dates) AND h.id <> ALL (v_held)
            RETURNING h.id, h.batch, h.workflow, h.created_at, h.deadline, h.timeout, h.last_token, h.attempt,
                      h.max_attempts, h.max_losses, h.priority, h.args_version, h.has_children, h.queue,
                      h.lane, h.task, h.tenant, h.subject, h.requested_by, h.unique_key, h.tags, h.args,
                      h.meta, h.retry, h.errors, h.step, h.state, h.attempted_at, h.finished_at
        ), live AS (
            INSERT INTO job (id, batch, workflow, created_at, run_at, ready_at, deadline, timeout, last_token,
                             attempt, max_attempts, max_losses, priority, args_version, has_children, state,
                             queue, lane, task, tenant, subject, requested_by, unique_key, tags, args, meta,
                             retry, errors, step)
            SELECT b.id, b.batch, b.workflow, b.created_at, v_now, coalesce(p_now, clock_timestamp()),
                   CASE WHEN b.deadline > v_now THEN b.deadline END, b.timeout, b.last_token,
                   b.attempt, b.max_attempts, b.max_losses, b.priority, b.args_version, b.has_children, 'ready',
                   b.queue, b.lane, b.task, b.tenant, b.subject, b.requested_by, b.unique_key, b.tags, b.args, b.meta,
                   b.retry,
                   -- A job keeps only errors, so the end of an attempt without an error would be lost.
                   CASE WHEN b.attempted_at IS NULL
                          OR (b.errors -> -1 ->> 'began')::timestamptz = b.attempted_at THEN b.errors
                        ELSE coalesce(b.errors, '[]') || jsonb_build_object(
                             'kind', 'rerun', 'type', b.state, 'message', '', 'attempt', b.attempt,
                             'began', b.attempted_at, 'at', b.finished_at) END,
                   b.step
              FROM back AS b
        ), counted AS (
            INSERT INTO batch_delta (batch, pending, completed, failed, cancelled)
            SELECT b.batch, count(*), -count(*) FILTER (WHERE b.state = 'completed'),
                   -count(*) FILTER (WHERE b.state = 'failed'), -count(*) FILTER (WHERE b.state = 'cancelled')
              FROM back AS b WHERE b.batch IS NOT NULL GROUP BY b.batch
        )
        SELECT array_agg(b.id), array_agg(b.id) FILTER (WHERE b.has_children) INTO v_linked, v_parents
          FROM back AS b WHERE b.workflow IS NOT NULL;
        IF v_linked IS NOT NULL THEN
            PERFORM restore_dependencies_v1(v_linked, v_parents);
        END IF;
        DELETE FROM progress AS p WHERE p.job = ANY (v_ids) AND p.job <> ALL (v_held);
        -- Waits and polls that timed out start over; completed steps stay completed.
        DELETE FROM step AS s
         WHERE s.job = ANY (v_ids) AND s.job <> ALL (v_held) AND s.kind IN ('event', 'poll') AND s.result @> '{"timed_out": true}';
        DELETE FROM event_wait AS w WHERE w.job = ANY (v_ids) AND w.job <> ALL (v_held);
        v_answers := ARRAY(
            SELECT CASE WHEN g.id = ANY (v_held) THEN 'held' ELSE coalesce(a.state, 'missing') END
              FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord) LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id
             ORDER BY g.ord);
        EXIT WHEN NOT v_answers && p_states
               OR (v_holds AND v_ids <@ v_held);  -- others hold the rest
        v_holds := true;
    END LOOP;
    PERFORM notify_ready_v1(r.queue, r.lane, r.priority, r.ready_at)
       FROM (SELECT j.queue, j.lane, j.priority,
                    min(j.ready_at) FILTER (WHERE j.state = 'ready') AS ready_at
               FROM job AS j
              WHERE j.id = ANY (p_ids) GROUP BY j.queue, j.lane, j.priority) AS r
      WHERE r.ready_at IS NOT NULL;
    RETURN QUERY SELECT a.id, a.answer FROM unnest(p_ids, v_answers) AS a (id, answer);
END
$$;
