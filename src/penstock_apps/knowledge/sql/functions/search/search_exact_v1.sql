-- The nearest chunks, by computing the distance of every one: this is faster if there are few, and misses none. It looks
-- at the chunks of the scope, or without one at all chunks of the editions. Without filters, it finds chunks of deleted
-- documents, too.
--
-- A bitmap scan reads the chunks in the order in which they are stored. An index scan would read them in the order of
-- their hashes, a page for each.
CREATE FUNCTION :"schema".search_exact_v1(
    p_tenant text, p_editions bigint[], p_scope bigint[], p_vector halfvec, p_filters jsonb, p_most integer
) RETURNS TABLE (chunk bigint, distance double precision)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", :"vector", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_indexscan = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
BEGIN
    IF p_scope IS NOT NULL THEN
        RETURN QUERY
            SELECT c.id, c.embedding <=> p_vector
              FROM chunk AS c WHERE c.id = ANY (p_scope) AND c.tenant = p_tenant
             ORDER BY 2 LIMIT p_most;
    ELSIF p_filters IS NULL THEN
        RETURN QUERY
            SELECT c.id, c.embedding <=> p_vector
              FROM chunk AS c WHERE c.edition = ANY (p_editions) AND c.tenant = p_tenant
             ORDER BY 2 LIMIT p_most;
    ELSE
        -- Sorted first, and asked in that order: those that are far away never are.
        RETURN QUERY
            SELECT n.id, n.distance
              FROM (SELECT c.id, c.embedding <=> p_vector AS distance
                      FROM chunk AS c WHERE c.edition = ANY (p_editions) AND c.tenant = p_tenant
                     ORDER BY 2 OFFSET 0) AS n
             WHERE (SELECT true FROM search_place_v1 AS p
                     WHERE p.chunk = n.id AND p.tenant = p_tenant
                       AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata) LIMIT 1)
             LIMIT p_most;
    END IF;
END
$$;
