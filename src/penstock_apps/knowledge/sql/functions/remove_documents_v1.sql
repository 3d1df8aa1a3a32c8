-- Remove documents with all that is found of them. The answer: their files that nothing else needs, to be removed next.
CREATE FUNCTION :"schema".remove_documents_v1(p_tenant text, p_documents bigint[]) RETURNS SETOF bytea
LANGUAGE plpgsql
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_chunks  bigint[];
    v_digests bytea[];
BEGIN
    WITH gone AS (
        DELETE FROM passage AS p WHERE p.tenant = p_tenant AND p.document = ANY (p_documents) RETURNING p.chunk
    )
    SELECT array_agg(DISTINCT g.chunk) INTO v_chunks FROM gone AS g;
    v_chunks := ARRAY(SELECT c.id FROM chunk AS c WHERE c.id = ANY (v_chunks) AND c.tenant = p_tenant FOR UPDATE SKIP LOCKED);
    DELETE FROM chunk AS c WHERE c.id = ANY (v_chunks) AND NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = c.id);
    DELETE FROM draft AS d WHERE d.tenant = p_tenant AND d.document = ANY (p_documents);

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
    SELECT array_agg(DISTINCT g.digest) INTO v_digests FROM gone AS g WHERE g.digest IS NOT NULL;
    RETURN QUERY
        SELECT o.digest FROM object AS o
         WHERE o.tenant = p_tenant AND o.digest = ANY (v_digests)
           AND NOT EXISTS (SELECT FROM document AS d WHERE d.tenant = p_tenant AND d.digest = o.digest AND d.stored);
END
$$;
