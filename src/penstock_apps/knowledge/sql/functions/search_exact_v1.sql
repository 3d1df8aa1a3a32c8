-- The nearest chunks, by the distance of every one of them: for few it is the faster way, and it misses none.
-- In the scope, where one is given, or else in the editions. Without filters, of deleted documents too.
CREATE FUNCTION :"schema".search_exact_v1(
    p_tenant text, p_editions bigint[], p_scope bigint[], p_vector halfvec, p_filters jsonb, p_most integer
) RETURNS TABLE (chunk bigint, distance double precision)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", :"vector", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    IF p_scope IS NOT NULL THEN
        RETURN QUERY
            SELECT c.id, c.embedding <=> p_vector
              FROM unnest(p_scope) AS s (id) JOIN chunk AS c ON c.id = s.id
             WHERE c.tenant = p_tenant
             ORDER BY 2 LIMIT p_most;
        RETURN;
    END IF;
    -- Sorted first, and asked in that order: those that are far away never are.
    RETURN QUERY
        SELECT n.id, n.distance
          FROM (SELECT c.id, c.embedding <=> p_vector AS distance
                  FROM chunk AS c WHERE c.edition = ANY (p_editions) AND c.tenant = p_tenant
                 ORDER BY 2 OFFSET 0) AS n
         WHERE p_filters IS NULL
            OR (SELECT true FROM search_place AS p
                 WHERE p.chunk = n.id AND p.tenant = p_tenant
                   AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata) LIMIT 1)
         LIMIT p_most;
END
$$;
