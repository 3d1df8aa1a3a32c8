-- Return running jobs of a lease to ready, without a failure or loss: all except those that the worker knows.
-- After a claim whose answer was lost, these are jobs the worker never saw; at shutdown, those that did not finish.
CREATE FUNCTION :"schema".release_jobs_v1(
    p_lease bigint, p_keep bigint[] DEFAULT '{}', p_now timestamptz DEFAULT NULL
) RETURNS integer
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
    WITH back AS (
        UPDATE job AS j
           SET state = 'ready', lease = NULL, token = NULL,
               ready_at = coalesce(p_now, clock_timestamp())
         WHERE j.id = ANY (ARRAY(
               SELECT r.id FROM job AS r
                WHERE r.state = 'running' AND r.lease = p_lease AND r.id <> ALL (p_keep)
                  FOR UPDATE SKIP LOCKED))
        RETURNING j.queue, j.lane, j.priority, j.ready_at
    ), told AS (
        SELECT notify_ready_v1(b.queue, b.lane, b.priority, min(b.ready_at))
          FROM back AS b GROUP BY b.queue, b.lane, b.priority
    )
    SELECT ((SELECT count(*) FROM back) + 0 * (SELECT count(*) FROM told))::integer;
$$;
