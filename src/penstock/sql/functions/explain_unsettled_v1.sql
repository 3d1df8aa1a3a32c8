-- Why were these attempts not settled? Leaves out those whose settle had committed before (same token).
CREATE FUNCTION :"schema".explain_unsettled_v1(p_ids bigint[], p_tokens uuid[])
RETURNS TABLE (id bigint, token uuid, answer text)
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
    SELECT g.id, g.token,
           CASE WHEN j.token = g.token THEN 'busy'
                WHEN h.state = 'cancelled' THEN 'cancelled'
                ELSE 'refused' END
      FROM unnest(p_ids, p_tokens) AS g (id, token)
      LEFT JOIN job AS j ON j.id = g.id
      LEFT JOIN job_history AS h ON h.id = g.id
     WHERE g.token IS NULL
        OR (j.last_token IS DISTINCT FROM g.token AND h.last_token IS DISTINCT FROM g.token);
$$;
