-- The nearest chunks of an edition, by its vector index. Without filters, chunks of deleted documents are found too.
--
-- With filters the index is read on until enough chunks have passed. Relaxed order finds more of the true neighbours with
-- the same work. Postgres takes the result for sorted then, so `+ 0` makes it sort. With sorts off, the index is the only
-- plan that is left for the inner query.
CREATE FUNCTION :"schema".search_index_v1(
    p_tenant text, p_edition bigint, p_vector halfvec, p_filters jsonb, p_most integer
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
             WHERE c.edition = %2$s AND c.tenant = $2 AND %3$s
             ORDER BY c.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s)
             LIMIT $4)
        SELECT id, distance FROM near ORDER BY distance + 0 $q$,
        vector_dims(p_vector), p_edition,
        CASE WHEN p_filters IS NULL THEN 'true' ELSE $q$
            (SELECT true FROM search_place_v1 AS p
              WHERE p.chunk = c.id AND p.tenant = $2
                AND search_admits_v1($3, p.document, p.source, p.tags, p.metadata) LIMIT 1)$q$ END)
        USING p_vector, p_tenant, p_filters, p_most;
END
$$;
