-- No job is added to these batches any more, but by their own: each is finished as soon as nothing of it is pending.
-- One that is cancelled has no success, whatever its jobs came to: nobody knows what else was to be in it.
-- Answers closed, or missing.
CREATE FUNCTION :"schema".close_batch_v1(p_batches bigint[], p_cancel boolean DEFAULT false, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (id bigint, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
BEGIN
    -- Waits for whoever is adding jobs to it: he holds its key.
    PERFORM 1 FROM batch AS b WHERE b.id = ANY (p_batches) ORDER BY b.id FOR UPDATE;
    UPDATE batch AS b SET closed_at = v_now WHERE b.id = ANY (p_batches) AND b.closed_at IS NULL;
    UPDATE batch AS b SET cancelled_at = v_now
     WHERE p_cancel AND b.id = ANY (p_batches) AND b.finished_at IS NULL AND b.cancelled_at IS NULL;
    -- One that is empty, or done already, has no delta to come that would finish it.
    INSERT INTO batch_delta (batch)
    SELECT b.id FROM batch AS b WHERE b.id = ANY (p_batches) AND b.finished_at IS NULL;
    RETURN QUERY
    SELECT g.id, CASE WHEN b.id IS NULL THEN 'missing' ELSE 'closed' END
      FROM unnest(p_batches) AS g (id) LEFT JOIN batch AS b ON b.id = g.id;
END
$$;
