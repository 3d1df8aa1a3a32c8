-- Add a number of jobs to a batch if it is open. The batch is neither closed nor finished before this transaction ends.
-- A running job of the batch (p_adder) may add to it even if it is closed, since it cannot finish before that job.
--
-- This locks the key of the batch. A fold that only counts does not conflict with it, so a transaction whose snapshot is
-- older than the fold can still add jobs. One whose snapshot is older than the close fails with 40001.
CREATE FUNCTION :"schema".join_batch_v1(
    p_batch bigint, p_count integer, p_tenants text[], p_adder bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_batch record;
    v_other text;
BEGIN
    SELECT b.tenant, b.closed_at INTO v_batch FROM batch AS b WHERE b.id = p_batch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no batch %.', p_batch USING ERRCODE = 'PS011', DETAIL = json_build_array(p_batch::text)::text;
    END IF;
    IF v_batch.closed_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM job AS j WHERE j.id = p_adder AND j.batch = p_batch AND j.state = 'running') THEN
        RAISE EXCEPTION 'Batch % is closed: no job can be added to it any more.', p_batch
            USING ERRCODE = 'PS012', DETAIL = json_build_array(p_batch::text)::text, HINT = 'Add jobs before closing it, or begin another batch.';
    END IF;
    SELECT t.tenant INTO v_other FROM unnest(p_tenants) AS t (tenant) WHERE t.tenant <> v_batch.tenant LIMIT 1;
    IF v_batch.tenant <> '' AND (FOUND OR p_tenants IS NULL) THEN
        RAISE EXCEPTION 'A job of tenant "%" cannot be in a batch of tenant "%".', coalesce(v_other, ''), v_batch.tenant
            USING ERRCODE = 'PS007', DETAIL = json_build_array(coalesce(v_other, ''), v_batch.tenant)::text,
                  HINT = 'Enqueue it as that tenant, or make the batch without one.';
    END IF;
    INSERT INTO batch_delta (batch, total, pending) VALUES (p_batch, p_count, p_count);
END
$$;
