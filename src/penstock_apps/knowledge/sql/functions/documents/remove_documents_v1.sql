-- Remove documents with their chunks, and return the digests of their files: these are removed next, unless others need
-- them.
CREATE FUNCTION :"schema".remove_documents_v1(p_tenant text, p_documents bigint[]) RETURNS SETOF bytea
LANGUAGE plpgsql
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_chunks bigint[];
BEGIN
    -- Who publishes one of them now is waited for: the statements after this one see what it has left.
    PERFORM FROM document AS d WHERE d.tenant = p_tenant AND d.id = ANY (p_documents) ORDER BY d.id FOR UPDATE;
    WITH gone AS (
        DELETE FROM passage AS p WHERE p.tenant = p_tenant AND p.document = ANY (p_documents) RETURNING p.chunk
    )
    SELECT array_agg(DISTINCT g.chunk) INTO v_chunks FROM gone AS g;
    -- What is locked is in use.
    v_chunks := ARRAY(SELECT c.id FROM chunk AS c WHERE c.id = ANY (v_chunks) AND c.tenant = p_tenant FOR UPDATE SKIP LOCKED);
    DELETE FROM chunk AS c WHERE c.id = ANY (v_chunks) AND NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = c.id);
    DELETE FROM draft AS d WHERE d.tenant = p_tenant AND d.document = ANY (p_documents);

    RETURN QUERY
        WITH gone AS (
            DELETE FROM document AS d WHERE d.tenant = p_tenant AND d.id = ANY (p_documents)
            RETURNING d.id, d.bytes, d.chunks, d.tokens, d.digest
        ), counted AS (
            INSERT INTO usage AS u (tenant, slot, documents, bytes, chunks, tokens)
            SELECT p_tenant, g.id % 16, -count(*), -sum(g.bytes), -sum(g.chunks), -sum(g.tokens) FROM gone AS g GROUP BY 2 ORDER BY 2
            ON CONFLICT (tenant, slot) DO UPDATE
               SET documents = u.documents + excluded.documents, bytes = u.bytes + excluded.bytes,
                   chunks = u.chunks + excluded.chunks, tokens = u.tokens + excluded.tokens
        )
        SELECT DISTINCT g.digest FROM gone AS g WHERE g.digest IS NOT NULL;
END
$$;
