-- Look at `p_most` chunks, from a random one on, or at all if they are fewer. Remove those that stand in no document, and
-- count them. There are few: those of a document that was removed while another with the same text was published.
CREATE FUNCTION :"schema".sweep_chunks_v1(p_most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_from    bigint := CASE WHEN (SELECT count(*) FROM (SELECT FROM chunk LIMIT p_most) AS few) < p_most THEN 0
                           ELSE floor(random() * (SELECT max(c.id) FROM chunk AS c)) END;
    v_chunks  bigint[];
    v_removed integer;
BEGIN
    v_chunks := ARRAY(
        SELECT n.id FROM (SELECT c.id FROM chunk AS c WHERE c.id >= v_from ORDER BY c.id LIMIT p_most) AS n
         WHERE NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = n.id));
    -- Locked first: the statement after it sees who has pointed to one meanwhile.
    v_chunks := ARRAY(SELECT c.id FROM chunk AS c WHERE c.id = ANY (v_chunks) FOR UPDATE SKIP LOCKED);
    DELETE FROM chunk AS c WHERE c.id = ANY (v_chunks) AND NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = c.id);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END
$$;
