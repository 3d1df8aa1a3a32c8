-- Return the lanes and priorities of a queue that have ready jobs, with the first job of each. It begins with one lane,
-- so that a queue with very many lanes is read in pages.
-- This is a recursive skip scan of the ready index: one step for each lane and priority, not for each job. Under an old
-- snapshot a step may walk over many dead entries, so callers limit the time they spend on it.
CREATE FUNCTION :"schema".scan_lanes_v1(p_queue text, p_from text DEFAULT '', p_limit integer DEFAULT 1000)
RETURNS TABLE (lane text, priority smallint, ready_at timestamptz, id bigint)
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
    WITH RECURSIVE line AS (
        (SELECT j.lane, j.priority, j.ready_at, j.id
           FROM job AS j
          WHERE j.state = 'ready' AND j.queue = p_queue AND j.lane >= p_from
          ORDER BY j.lane, j.priority DESC, j.ready_at, j.id
          LIMIT 1)
        UNION ALL
        SELECT n.lane, n.priority, n.ready_at, n.id
          FROM line AS l
         CROSS JOIN LATERAL (
               SELECT x.lane, x.priority, x.ready_at, x.id FROM (
                   (SELECT j.lane, j.priority, j.ready_at, j.id
                      FROM job AS j
                     WHERE j.state = 'ready' AND j.queue = p_queue
                       AND j.lane = l.lane AND j.priority < l.priority
                     ORDER BY j.priority DESC, j.ready_at, j.id
                     LIMIT 1)
                   UNION ALL
                   (SELECT j.lane, j.priority, j.ready_at, j.id
                      FROM job AS j
                     WHERE j.state = 'ready' AND j.queue = p_queue AND j.lane > l.lane
                     ORDER BY j.lane, j.priority DESC, j.ready_at, j.id
                     LIMIT 1)) AS x
                LIMIT 1) AS n
    )
    SELECT l.lane, l.priority, l.ready_at, l.id FROM line AS l LIMIT p_limit;
$$;
