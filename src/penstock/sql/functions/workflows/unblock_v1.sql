-- Let blocked jobs run now, without the jobs that they wait for. Returns ready, the state of a job that was not blocked,
-- or missing.
CREATE FUNCTION :"schema".unblock_v1(p_ids bigint[], p_now timestamptz DEFAULT NULL)
RETURNS TABLE (id bigint, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids) AND j.state = 'blocked' ORDER BY j.id FOR UPDATE);
    UPDATE dependency AS d SET satisfied = true WHERE d.child = ANY (v_ids) AND NOT d.satisfied;
    UPDATE job AS j
       SET state = 'ready', pending = 0, reason = NULL, ready_at = coalesce(p_now, clock_timestamp())
     WHERE j.id = ANY (v_ids);
    PERFORM notify_ready_v1(r.queue, r.lane, r.priority, r.ready_at)
       FROM (SELECT j.queue, j.lane, j.priority, min(j.ready_at) AS ready_at FROM job AS j
              WHERE j.id = ANY (v_ids) GROUP BY j.queue, j.lane, j.priority) AS r;
    RETURN QUERY
    SELECT g.id, coalesce(a.state, 'missing')
      FROM unnest(p_ids) AS g (id) LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id;
END
$$;
