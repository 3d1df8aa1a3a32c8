-- Keep vectors that are paid for until they are published.
CREATE FUNCTION :"schema".keep_vectors_v1(p_tenant text, p_embedder text, p_hashes bytea[], p_vectors halfvec[]) RETURNS void
LANGUAGE sql
SET search_path = :"schema", :"vector", pg_temp
AS $$
    INSERT INTO vector (tenant, embedder, hash, embedding)
    SELECT p_tenant, p_embedder, u.hash, u.embedding FROM unnest(p_hashes, p_vectors) AS u (hash, embedding) ORDER BY u.hash
    ON CONFLICT (tenant, embedder, hash) DO NOTHING
$$;
