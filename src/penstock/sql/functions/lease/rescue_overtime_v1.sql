-- Take jobs that ran longer than their timeout plus a grace, although the lease of their worker is valid: a worker
-- that did not end them itself hangs in one of them. If a worker reports outcomes that it cannot write, it has ended
-- those jobs and keeps them until it can. It keeps all of its jobs while it claims none.
CREATE FUNCTION :"schema".rescue_overtime_v1(
    p_grace double precision DEFAULT 60, p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, lost boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_ids    bigint[];
    v_tokens uuid[];
BEGIN
    SELECT array_agg(o.id), array_agg(o.token) INTO v_ids, v_tokens
      FROM (SELECT j.id, j.token FROM job AS j
             WHERE j.state = 'running' AND j.lease > 0
               AND j.attempted_at + make_interval(secs => j.timeout + p_grace) < v_now
               AND NOT EXISTS (SELECT FROM lease AS l
                                WHERE l.id = j.lease AND l.expires_at > v_now
                                  AND jsonb_typeof(l.info -> 'unwritten') = 'object'
                                  AND (NOT coalesce((l.info #>> '{unwritten,is_claiming}')::boolean, false)
                                       OR l.info #> '{unwritten,ids}' ? j.id::text))
             LIMIT p_limit) AS o;
    RETURN QUERY
    SELECT l.id, l.lost FROM mark_worker_lost_v1(coalesce(v_ids, '{}'), v_tokens, 'timeout', 'Overtime',
        'The attempt ran past its timeout and its worker could not end it.', false, v_now) AS l;
END
$$;
