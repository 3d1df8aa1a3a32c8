-- Say why attempts were not settled, without those whose settle had committed before (with the same token).
-- STABLE, so that all of it uses one snapshot: a job that is settled between two would be in neither.
CREATE FUNCTION :"schema".explain_unsettled_v1(p_ids bigint[], p_tokens uuid[])
RETURNS TABLE (id bigint, token uuid, answer text)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_dates date[] := history_dates_v1(p_ids);
BEGIN
    RETURN QUERY
    SELECT g.id, g.token,
           CASE WHEN j.token = g.token THEN 'busy'
                WHEN h.state = 'cancelled' THEN 'cancelled'
                ELSE 'refused' END
      FROM unnest(p_ids, p_tokens) AS g (id, token)
      LEFT JOIN job AS j ON j.id = g.id AND j.id = ANY (p_ids)
      LEFT JOIN job_history AS h ON h.id = g.id AND h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates)
     WHERE g.token IS NULL
        OR (j.last_token IS DISTINCT FROM g.token AND h.last_token IS DISTINCT FROM g.token);
END
$$;
