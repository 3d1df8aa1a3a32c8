-- Make blocked jobs ready that wait for no other job. Returns the jobs that need no further call: not one whose row
-- another transaction has locked, because that may leave it blocked.
CREATE FUNCTION :"schema".wake_jobs_v1(p_jobs bigint[], p_notify boolean, p_now timestamptz DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_free  bigint[];
    v_held  bigint[];
    v_lines integer;
BEGIN
    IF cardinality(p_jobs) = 0 THEN
        RETURN p_jobs;
    END IF;
    v_free := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.id = ANY (p_jobs) AND j.state = 'blocked' AND j.pending = 0
         ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED);
    -- For an empty list Postgres may use any partial index, and read all of it.
    IF cardinality(v_free) > 0 THEN
        WITH up AS (
            UPDATE job AS j SET state = 'ready', ready_at = coalesce(p_now, clock_timestamp())
             WHERE j.id = ANY (v_free)
            RETURNING j.queue, j.lane, j.priority, j.ready_at
        ), told AS (
            SELECT notify_ready_v1(u.queue, u.lane, u.priority, min(u.ready_at))
              FROM up AS u WHERE p_notify GROUP BY u.queue, u.lane, u.priority
        )
        SELECT count(*) INTO v_lines FROM told;
    END IF;
    v_held := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (p_jobs) AND j.state = 'blocked' AND j.pending = 0);
    RETURN ARRAY(SELECT g.id FROM unnest(p_jobs) AS g (id) WHERE g.id <> ALL (v_held));
END
$$;
