-- Give waiting jobs the arguments, the time and the options of newer requests, and fresh attempts. Their rows are locked
-- already. Steps, waits and progress of attempts with the old arguments are removed.
CREATE FUNCTION :"schema".replace_jobs_v1(
    p_jobs bigint[], p_replaced boolean[], p_tasks text[], p_args text[], p_args_versions smallint[], p_queues text[],
    p_lanes text[], p_priorities smallint[], p_delays double precision[], p_run_ats timestamptz[],
    p_max_attempts integer[], p_timeouts double precision[], p_subjects text[], p_requested_bys text[], p_tags text[],
    p_metas text[], p_retries text[], p_deadlines timestamptz[], p_now timestamptz
) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
    UPDATE job AS j
       SET state = CASE WHEN j.state = 'blocked' THEN 'blocked' WHEN g.due > p_now THEN 'scheduled' ELSE 'ready' END,
           run_at = g.due,
           ready_at = CASE WHEN j.state = 'blocked' OR g.due > p_now THEN NULL ELSE clock_timestamp() END,
           task = g.task, args = g.args::jsonb, args_version = coalesce(g.args_version, 1),
           queue = coalesce(g.queue, 'default'), lane = coalesce(g.lane, ''), priority = coalesce(g.priority, 0),
           failures = 0, losses = 0, suspect = false, max_attempts = coalesce(g.max_attempts, 5), timeout = g.timeout, subject = g.subject,
           requested_by = g.requested_by, meta = g.meta::jsonb, retry = g.retry::jsonb, deadline = g.deadline,
           tags = CASE WHEN g.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(g.tags::jsonb)) END,
           reason = CASE WHEN j.state = 'blocked' THEN j.reason END, stuck_since = NULL
      FROM (SELECT r.*, coalesce(r.run_at, p_now + make_interval(secs => coalesce(r.delay, 0))) AS due
              FROM unnest(p_jobs, p_replaced, p_tasks, p_args, p_args_versions, p_queues, p_lanes, p_priorities, p_delays,
                          p_run_ats, p_max_attempts, p_timeouts, p_subjects, p_requested_bys, p_tags, p_metas,
                          p_retries, p_deadlines)
                AS r (job, is_replaced, task, args, args_version, queue, lane, priority, delay, run_at, max_attempts,
                      timeout, subject, requested_by, tags, meta, retry, deadline)) AS g
     WHERE g.is_replaced AND j.id = ANY (p_jobs) AND j.id = g.job AND j.state <> 'running';
    DELETE FROM step AS s
     WHERE s.job = ANY (ARRAY(SELECT r.job FROM unnest(p_jobs, p_replaced) AS r (job, is_replaced) WHERE r.is_replaced));
    DELETE FROM event_wait AS w
     WHERE w.job = ANY (ARRAY(SELECT r.job FROM unnest(p_jobs, p_replaced) AS r (job, is_replaced) WHERE r.is_replaced));
    DELETE FROM progress AS p
     WHERE p.job = ANY (ARRAY(SELECT r.job FROM unnest(p_jobs, p_replaced) AS r (job, is_replaced) WHERE r.is_replaced));
$$;
