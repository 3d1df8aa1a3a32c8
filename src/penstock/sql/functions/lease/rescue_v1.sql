-- Take jobs from lost workers: those that are running, but have no valid lease.
--
-- The scan reads the gaps between the ids of valid leases, not the index entries of these leases, which may be millions
-- of dead ones under an old snapshot. The token that the scan has read is checked again after the lock, so a job that
-- was settled and claimed again in between is left alone.
-- Jobs that ended but whose worker could not write their outcomes count as unwritten; the lease names them.
CREATE FUNCTION :"schema".rescue_v1(p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (id bigint, lost boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_jobs record;
BEGIN
    FOR v_jobs IN WITH living AS (
        SELECT l.id FROM lease AS l WHERE l.expires_at > v_now
    ), gap AS (
        SELECT coalesce(lag(l.id) OVER (ORDER BY l.id), 0) AS low, l.id AS high FROM living AS l
        UNION ALL
        SELECT coalesce(max(l.id), 0), 9223372036854775807 FROM living AS l
    )
    SELECT o.unwritten, array_agg(o.id) AS ids, array_agg(o.token) AS tokens
      FROM (SELECT j.id, j.token,
                   (SELECT coalesce(l.info #>> '{unwritten,message}', '') FROM lease AS l
                     WHERE l.id = j.lease AND jsonb_typeof(l.info -> 'unwritten') = 'object'
                       AND l.info #> '{unwritten,ids}' ? j.id::text) AS unwritten
              FROM gap AS g
             CROSS JOIN LATERAL (
                   SELECT r.id, r.token, r.lease FROM job AS r
                    WHERE r.state = 'running' AND r.lease > g.low AND r.lease < g.high
                    LIMIT p_limit) AS j
             LIMIT p_limit) AS o
     GROUP BY o.unwritten
    LOOP
        IF v_jobs.unwritten IS NULL THEN
            RETURN QUERY
            SELECT l.id, l.lost FROM mark_worker_lost_v1(v_jobs.ids, v_jobs.tokens, 'lost', 'WorkerLost',
                'The worker that had this attempt stopped renewing its lease.', false, v_now) AS l;
        ELSE
            RETURN QUERY
            SELECT l.id, l.lost FROM mark_worker_lost_v1(v_jobs.ids, v_jobs.tokens, 'unwritten', 'OutcomeUnwritten',
                'The attempt ended, and its outcome could not be written: ' || v_jobs.unwritten, true, v_now) AS l;
        END IF;
    END LOOP;
END
$$;
