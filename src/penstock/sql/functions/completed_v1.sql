-- Which of these attempts have completed their jobs, in a transaction of their handlers?
CREATE FUNCTION :"schema".completed_v1(p_ids bigint[], p_tokens uuid[]) RETURNS SETOF bigint
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET enable_seqscan = off
AS $$
    SELECT h.id FROM job_history AS h JOIN unnest(p_ids, p_tokens) AS g (id, token) ON g.id = h.id
     WHERE h.id = ANY (p_ids) AND h.last_token = g.token AND h.state = 'completed';
$$;
