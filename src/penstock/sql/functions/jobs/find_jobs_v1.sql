-- Return jobs by id, live or final, with the columns of job_all. One snapshot covers both tables, so a job that moves
-- between them meanwhile is not missed. Live jobs are found by their primary key, and nothing else is read for them. For
-- others, only those partitions of the history are read that contain them, and few are locked: see history_dates_v1.
CREATE FUNCTION :"schema".find_jobs_v1(p_ids bigint[]) RETURNS SETOF :"schema".job_all
LANGUAGE plpgsql STABLE ROWS 10
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_live  integer;
    v_dates date[];
BEGIN
    RETURN QUERY
    SELECT j.id, j.batch, j.workflow, j.created_at, j.run_at, j.ready_at, j.attempted_at, NULL::timestamptz,
           j.deadline, j.stuck_since, j.timeout, j.last_token, j.attempt, j.failures, j.max_attempts, j.losses, j.max_losses,
           j.priority, j.args_version, j.has_children, j.state, j.queue, j.lane, j.task, j.tenant, j.subject, j.requested_by,
           j.reason, j.unique_key, j.tags, j.args, j.meta, j.retry, j.errors, NULL::jsonb, NULL::date,
           j.step, j.pending
      FROM job AS j WHERE j.id = ANY (p_ids);
    GET DIAGNOSTICS v_live = ROW_COUNT;
    IF v_live = cardinality(p_ids) THEN
        RETURN;
    END IF;
    v_dates := history_dates_v1(p_ids);
    IF cardinality(v_dates) > 0 THEN
        RETURN QUERY
        SELECT h.id, h.batch, h.workflow, h.created_at, h.run_at, h.ready_at, h.attempted_at, h.finished_at,
               h.deadline, NULL::timestamptz, h.timeout, h.last_token, h.attempt, h.failures, h.max_attempts, h.losses, h.max_losses,
               h.priority, h.args_version, h.has_children, h.state, h.queue, h.lane, h.task, h.tenant, h.subject, h.requested_by,
               h.reason, h.unique_key, h.tags, h.args, h.meta, h.retry, h.errors, h.result, h.expires_on,
               h.step, 0
          FROM job_history AS h WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates);
    END IF;
END
$$;
