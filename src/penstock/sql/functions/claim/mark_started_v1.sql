-- Record that attempts of suspects start, before they do: only such an attempt counts as a loss if its worker is lost.
-- The commit is durable, so that a crash of the server does not forget which jobs were running.
-- Returns the attempts that may start (marked), and those whose rows others have locked: try again. An attempt that is
-- not returned does not own its job any more.
CREATE FUNCTION :"schema".mark_started_v1(p_ids bigint[], p_tokens uuid[])
RETURNS TABLE (token uuid, marked boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM commit_durably_v1();
    RETURN QUERY
    WITH free AS (
        SELECT j.id
          FROM unnest(p_ids, p_tokens) AS g (id, token)
          JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
           FOR NO KEY UPDATE OF j SKIP LOCKED
    ), marked AS (
        UPDATE job AS j SET begun_token = j.token
         WHERE j.id = ANY (ARRAY(SELECT f.id FROM free AS f))
        RETURNING j.token
    )
    SELECT j.token, m.token IS NOT NULL
      FROM unnest(p_ids, p_tokens) AS g (id, token)
      JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
      LEFT JOIN marked AS m ON m.token = j.token;
END
$$;
