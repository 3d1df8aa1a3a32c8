-- Close batches: only their own jobs may still add jobs. Each finishes as soon as none of its jobs is pending.
-- A cancelled batch has no success, whatever the outcomes of its jobs, because it may be incomplete.
-- Returns closed, or missing.
CREATE FUNCTION :"schema".close_batch_v1(p_batches bigint[], p_cancel boolean DEFAULT false, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (id bigint, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
BEGIN
    -- Wait for those who are adding jobs: they have locked its key.
    PERFORM 1 FROM batch AS b WHERE b.id = ANY (p_batches) ORDER BY b.id FOR UPDATE;
    UPDATE batch AS b SET closed_at = v_now WHERE b.id = ANY (p_batches) AND b.closed_at IS NULL;
    UPDATE batch AS b SET cancelled_at = v_now
     WHERE p_cancel AND b.id = ANY (p_batches) AND b.finished_at IS NULL AND b.cancelled_at IS NULL;
    -- For an empty batch, or one that is done already, no other delta would trigger the fold that finishes it.
    INSERT INTO batch_delta (batch)
    SELECT b.id FROM batch AS b WHERE b.id = ANY (p_batches) AND b.finished_at IS NULL;
    RETURN QUERY
    SELECT g.id, CASE WHEN b.id IS NULL THEN 'missing' ELSE 'closed' END
      FROM unnest(p_batches) AS g (id) LEFT JOIN batch AS b ON b.id = g.id;
END
$$;
