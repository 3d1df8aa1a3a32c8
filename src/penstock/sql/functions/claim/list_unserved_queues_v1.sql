-- Return the queues that no running worker serves although their oldest ready job has waited for at least p_seconds, and
-- for how many seconds it has. Paused queues are left out: their jobs are meant to wait.
-- A skip scan of the ready index finds the queues: one step for each queue, not for each job.
CREATE FUNCTION :"schema".list_unserved_queues_v1(
    p_seconds double precision, p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (queue text, seconds double precision)
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
    WITH RECURSIVE line AS (
        (SELECT j.queue FROM job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM job AS j
                 WHERE j.state = 'ready' AND j.queue > l.queue ORDER BY j.queue LIMIT 1)
          FROM line AS l WHERE l.queue IS NOT NULL
    ), served AS MATERIALIZED (
        SELECT DISTINCT s.queue
          FROM lease AS l
         CROSS JOIN LATERAL jsonb_object_keys(
               CASE jsonb_typeof(l.info -> 'queues') WHEN 'object' THEN l.info -> 'queues' ELSE '{}' END) AS s (queue)
         WHERE l.expires_at > coalesce(p_now, statement_timestamp())
    ), alone AS MATERIALIZED (
        SELECT l.queue
          FROM (SELECT queue FROM line WHERE queue IS NOT NULL LIMIT p_limit) AS l
         WHERE l.queue NOT IN (SELECT s.queue FROM served AS s) AND NOT is_queue_paused_v1(l.queue)
    )
    SELECT a.queue, o.seconds
      FROM alone AS a
     CROSS JOIN LATERAL (
           SELECT extract(epoch FROM coalesce(p_now, statement_timestamp()) - min(s.ready_at))::double precision
             FROM scan_lanes_v1(a.queue, '', 100) AS s) AS o (seconds)
     WHERE o.seconds >= p_seconds
     ORDER BY o.seconds DESC, a.queue;
$$;
