-- Erase jobs that do not run, live or final, with what was kept about them. Answers deleted, running, missing.
CREATE FUNCTION :"schema".delete_v1(p_ids bigint[])
RETURNS TABLE (id bigint, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_gone bigint[];
BEGIN
    WITH live AS (
        DELETE FROM job AS j WHERE j.id = ANY (p_ids) AND j.state <> 'running' RETURNING j.id
    ), final AS (
        DELETE FROM job_history AS h WHERE h.id = ANY (p_ids) RETURNING h.id
    )
    SELECT coalesce(array_agg(g.id), '{}') INTO v_gone
      FROM (SELECT l.id FROM live AS l UNION ALL SELECT f.id FROM final AS f) AS g;
    DELETE FROM progress AS p WHERE p.job = ANY (v_gone);
    DELETE FROM step AS s WHERE s.job = ANY (v_gone);
    -- A key must not go on standing for a job that nobody can find any more.
    DELETE FROM unique_claim AS u WHERE u.job = ANY (v_gone);
    RETURN QUERY
    SELECT g.id, CASE WHEN g.id = ANY (v_gone) THEN 'deleted' ELSE coalesce(j.state, 'missing') END
      FROM unnest(p_ids) AS g (id) LEFT JOIN job AS j ON j.id = g.id AND j.id = ANY (p_ids);
END
$$;
