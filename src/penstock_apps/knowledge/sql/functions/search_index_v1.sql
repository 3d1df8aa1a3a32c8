-- The nearest chunks, by the index that those of all tenants share. Without filters, of deleted documents too.
--
-- The index gives chunks of any edition, so it is read on until enough of these were found. In relaxed order it finds
-- more of the true neighbours with the same work; `+ 0` has Postgres sort them, which takes them for sorted otherwise.
-- Without sorts no other plan but that index is left for the inner query.
CREATE FUNCTION :"schema".search_index_v1(
    p_tenant text, p_editions bigint[], p_vector halfvec, p_filters jsonb, p_most integer
) RETURNS TABLE (chunk bigint, distance double precision)
LANGUAGE plpgsql
SET search_path = :"schema", :"vector", pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
BEGIN
    -- Not as settings of this function: who has not used pgvector yet may not know them.
    PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '400', true);
    RETURN QUERY EXECUTE format($q$
        WITH near AS MATERIALIZED (
            SELECT c.id, c.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s) AS distance
              FROM chunk AS c
             WHERE vector_dims(c.embedding) = %1$s AND c.edition = ANY ($2) AND c.tenant = $3
               AND %2$s
             ORDER BY c.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s)
             LIMIT $5)
        SELECT id, distance FROM near ORDER BY distance + 0 $q$,
        vector_dims(p_vector),
        CASE WHEN p_filters IS NULL THEN 'true' ELSE $q$
            (SELECT true FROM search_place AS p
              WHERE p.chunk = c.id AND p.tenant = $3
                AND search_admits_v1($4, p.document, p.source, p.tags, p.metadata) LIMIT 1)$q$ END)
        USING p_vector, p_editions, p_tenant, p_filters, p_most;
END
$$;
