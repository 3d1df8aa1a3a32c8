-- Return which of these attempts have completed their jobs, in a transaction of their handlers.
-- Nearly always that was just now, with the default retention. So the partition of that day is read first, and the
-- others only for jobs that are not there. Because the day is a parameter, each plan is made for one partition.
CREATE FUNCTION :"schema".find_completed_v1(p_ids bigint[], p_tokens uuid[]) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
AS $$
DECLARE
    v_usual date := expires_on_v1((statement_timestamp() AT TIME ZONE 'UTC')::date, 7);
    v_found bigint[] := ARRAY(
        SELECT h.id FROM job_history AS h JOIN unnest(p_ids, p_tokens) AS g (id, token) ON g.id = h.id
         WHERE h.expires_on = v_usual AND h.id = ANY (p_ids) AND h.last_token = g.token AND h.state = 'completed');
    v_dates date[];
BEGIN
    RETURN QUERY SELECT f FROM unnest(v_found) AS f;
    IF cardinality(v_found) < cardinality(p_ids) THEN
        v_dates := history_dates_v1(ARRAY(SELECT g FROM unnest(p_ids) AS g EXCEPT SELECT f FROM unnest(v_found) AS f));
        RETURN QUERY
            SELECT h.id FROM job_history AS h JOIN unnest(p_ids, p_tokens) AS g (id, token) ON g.id = h.id
             WHERE h.expires_on = ANY (v_dates) AND h.id = ANY (p_ids) AND h.id <> ALL (v_found)
               AND h.last_token = g.token AND h.state = 'completed';
    END IF;
END
$$;
