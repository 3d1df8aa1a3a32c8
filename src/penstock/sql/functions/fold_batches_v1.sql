-- Move the deltas of these batches into their counts; those that are closed and have nothing pending are finished.
-- Their callbacks are enqueued here, in the same transaction, each once. How many deltas were moved.
--
-- A batch whose row is held is left for later. Who adds jobs to it, or brings some back, holds its row until his
-- deltas can be seen: so nothing is pending for anybody when it is finished.
CREATE FUNCTION :"schema".fold_batches_v1(p_batches bigint[], p_now timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_batches bigint[];
    v_batch   record;
    v_moved   integer;
    c_memory  constant double precision := 30;  -- seconds that a rate looks back
BEGIN
    v_batches := ARRAY(SELECT b.id FROM batch AS b WHERE b.id = ANY (p_batches) ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED);
    WITH gone AS (
        DELETE FROM batch_delta AS d WHERE d.batch = ANY (v_batches)
        RETURNING d.batch, d.total, d.pending, d.completed, d.failed, d.cancelled
    ), sums AS (
        SELECT g.batch, sum(g.total) AS total, sum(g.pending) AS pending, sum(g.completed) AS completed,
               sum(g.failed) AS failed, sum(g.cancelled) AS cancelled, count(*) AS deltas,
               greatest(0, sum(g.completed + g.failed + g.cancelled)) AS ended
          FROM gone AS g GROUP BY g.batch
    ), folded AS (
        UPDATE batch AS b
           SET total = b.total + s.total, pending = b.pending + s.pending, completed = b.completed + s.completed,
               failed = b.failed + s.failed, cancelled = b.cancelled + s.cancelled, folded_at = p_now,
               rate = b.rate * a.fading + (1 - a.fading) * s.ended / a.seconds,
               rate_weight = b.rate_weight * a.fading + 1 - a.fading
          FROM sums AS s
         CROSS JOIN LATERAL (
               SELECT greatest(0.001, extract(epoch FROM p_now - coalesce(o.folded_at, o.created_at)))::double precision AS seconds
                 FROM batch AS o WHERE o.id = s.batch) AS t
         CROSS JOIN LATERAL (SELECT t.seconds, exp(-t.seconds / c_memory) AS fading) AS a
         WHERE b.id = s.batch
        RETURNING s.deltas
    )
    SELECT coalesce(sum(f.deltas), 0) INTO v_moved FROM folded AS f;

    FOR v_batch IN
        SELECT b.id, b.tenant, b.callbacks, b.failed > 0 AND b.failure_job IS NULL AS has_failed,
               b.pending = 0 AND b.closed_at IS NOT NULL AND b.finished_at IS NULL AS is_over,
               b.completed = b.total AS is_well, b.success_job, b.end_job
          FROM batch AS b WHERE b.id = ANY (v_batches)
    LOOP
        IF v_batch.has_failed AND v_batch.callbacks ? 'failure' THEN
            UPDATE batch AS b SET failure_job = call_back_v1(v_batch.id, v_batch.tenant, 'failure', v_batch.callbacks, p_now)
             WHERE b.id = v_batch.id;
        END IF;
        CONTINUE WHEN NOT v_batch.is_over;
        UPDATE batch AS b
           SET finished_at = p_now,
               success_job = coalesce(b.success_job, CASE WHEN v_batch.is_well THEN
                   call_back_v1(v_batch.id, v_batch.tenant, 'success', v_batch.callbacks, p_now) END),
               end_job = coalesce(b.end_job, call_back_v1(v_batch.id, v_batch.tenant, 'end', v_batch.callbacks, p_now))
         WHERE b.id = v_batch.id;
    END LOOP;
    RETURN v_moved;
END
$$;
