-- Which of these attempts have completed their jobs, in a transaction of their handlers?
-- Planned once a connection: a plan over all partitions takes longer than the look into them.
CREATE FUNCTION :"schema".completed_v1(p_ids bigint[], p_tokens uuid[]) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
        SELECT h.id FROM job_history AS h JOIN unnest(p_ids, p_tokens) AS g (id, token) ON g.id = h.id
         WHERE h.id = ANY (p_ids) AND h.last_token = g.token AND h.state = 'completed';
END
$$;
