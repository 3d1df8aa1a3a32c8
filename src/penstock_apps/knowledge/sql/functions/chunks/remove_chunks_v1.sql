-- Remove some chunks of an edition that is not searched any more, with the passages that point to them, and count them.
CREATE FUNCTION :"schema".remove_chunks_v1(p_tenant text, p_edition bigint, p_most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_chunks bigint[] := ARRAY(
        SELECT c.id FROM chunk AS c WHERE c.edition = p_edition AND c.tenant = p_tenant LIMIT p_most FOR UPDATE);
BEGIN
    DELETE FROM passage AS p WHERE p.chunk = ANY (v_chunks);
    DELETE FROM chunk AS c WHERE c.id = ANY (v_chunks);
    RETURN cardinality(v_chunks);
END
$$;
