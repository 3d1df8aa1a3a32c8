-- Choose, among the jobs of one call that share a unique key, the one that takes it. Returns it with its rule.
CREATE FUNCTION :"schema".choose_unique_v1(p_jobs bigint[], p_keys text[], p_tenants text[], p_rules text[])
RETURNS TABLE (
    ord bigint, job bigint, tenant text, key text, hold text, on_conflict text, keep double precision, until timestamptz
)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_key text;
BEGIN
    SELECT g.key INTO v_key
      FROM unnest(p_keys, p_tenants, p_rules) AS g (key, tenant, rule)
     WHERE g.key IS NOT NULL
     GROUP BY g.key, coalesce(g.tenant, '')
    HAVING count(*) > 1 AND bool_or(g.rule::jsonb ->> 'on_conflict' = 'raise')
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'Unique key "%" is given to two jobs of one call.', v_key
            USING ERRCODE = 'PS010', DETAIL = json_build_array(v_key, NULL)::text,
                  HINT = 'Leave one of them out, or ask for another answer to the conflict.';
    END IF;
    RETURN QUERY
    SELECT DISTINCT ON (g.tenant, g.key)
           g.ord, g.job, g.tenant, g.key, coalesce(g.rule ->> 'hold', 'live'), coalesce(g.rule ->> 'on_conflict', 'skip'),
           (g.rule ->> 'keep')::double precision, (g.rule ->> 'until')::timestamptz
      FROM (SELECT k.ord, k.job, coalesce(k.tenant, '') AS tenant, k.key, k.rule::jsonb AS rule
              FROM unnest(p_jobs, p_keys, p_tenants, p_rules) WITH ORDINALITY AS k (job, key, tenant, rule, ord)
             WHERE k.key IS NOT NULL) AS g
     ORDER BY g.tenant, g.key,
              CASE WHEN g.rule ->> 'on_conflict' IN ('replace', 'supersede') THEN -g.ord ELSE g.ord END;
END
$$;
