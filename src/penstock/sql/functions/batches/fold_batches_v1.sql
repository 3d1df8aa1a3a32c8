-- Add the deltas of these batches to their counts, and finish closed batches without pending jobs. Their callbacks are
-- enqueued here, in the same transaction, each once. Returns how many deltas were moved, and how many batches were left
-- for the next fold: because somebody has locked their row, or because the pace (in seconds) since the last fold has not
-- passed. Only the end of a batch does not wait for the pace.
--
-- A transaction that adds jobs to a batch locks its key until its deltas are visible. That blocks no counting, but it
-- keeps the batch from finishing: so no job is pending when a batch is finished. A retried job reopens it.
--
-- If the database refuses a callback, only its batch cannot finish. The next fold tries again.
CREATE FUNCTION :"schema".fold_batches_v1(
    p_batches bigint[], p_pace double precision, p_now timestamptz, OUT moved integer, OUT passed integer
)
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
    v_failed  bigint[];
    c_memory  constant double precision := 30;  -- the time over which a rate is averaged, in seconds
BEGIN
    -- Jobs of a batch that was swept may still be retried, and leave deltas.
    DELETE FROM batch_delta AS d
     WHERE d.batch = ANY (ARRAY(SELECT g.id FROM unnest(p_batches) AS g (id)
                                 WHERE NOT EXISTS (SELECT FROM batch AS b WHERE b.id = g.id)));
    v_batches := ARRAY(
        SELECT b.id FROM batch AS b
         WHERE b.id = ANY (p_batches)
           AND ((b.folded_at > p_now - make_interval(secs => p_pace) AND b.folded_at <= p_now) IS NOT TRUE
                OR (b.closed_at IS NOT NULL AND b.pending > 0
                    AND b.pending + (SELECT sum(d.pending) FROM batch_delta AS d WHERE d.batch = b.id) = 0))
         ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED);
    passed := cardinality(ARRAY(SELECT b.id FROM batch AS b WHERE b.id = ANY (p_batches) AND b.id <> ALL (v_batches)));
    WITH gone AS (
        DELETE FROM batch_delta AS d WHERE d.batch = ANY (v_batches)
        RETURNING d.batch, d.total, d.pending, d.completed, d.failed, d.cancelled, d.created_at
    ), sums AS (
        SELECT g.batch, sum(g.total) AS total, sum(g.pending) AS pending, sum(g.completed) AS completed,
               sum(g.failed) AS failed, sum(g.cancelled) AS cancelled, count(*) AS deltas,
               min(g.created_at) AS since,
               greatest(0, sum(g.completed + g.failed + g.cancelled)) AS ended,
               -- Even if the job has been retried since.
               bool_or(g.failed > 0) AS has_failed, bool_or(g.pending > 0) AS goes_on
          FROM gone AS g GROUP BY g.batch
    ), folded AS (
        UPDATE batch AS b
           SET total = b.total + s.total, pending = b.pending + s.pending, completed = b.completed + s.completed,
               failed = b.failed + s.failed, cancelled = b.cancelled + s.cancelled, folded_at = p_now,
               finished_at = CASE WHEN NOT s.goes_on THEN b.finished_at END,
               rate = CASE WHEN b.rate > 1e-9 THEN b.rate * a.fading ELSE 0 END + (1 - a.fading) * s.ended / a.seconds,
               rate_weight = b.rate_weight * a.fading + 1 - a.fading
          FROM sums AS s
         CROSS JOIN LATERAL (
               -- Time without pending jobs does not count for the rate.
               SELECT greatest(0.001, extract(epoch FROM p_now - CASE WHEN o.pending = 0 AND s.since <= p_now
                          THEN greatest(s.since, o.folded_at) ELSE coalesce(o.folded_at, o.created_at) END))::double precision AS seconds
                 FROM batch AS o WHERE o.id = s.batch) AS t
         -- A weight that is nearly zero counts as zero, because an underflow is an error.
         CROSS JOIN LATERAL (SELECT t.seconds, CASE WHEN t.seconds < 20 * c_memory THEN exp(-t.seconds / c_memory)
                                                    ELSE 0 END AS fading) AS a
         WHERE b.id = s.batch
        RETURNING b.id, s.deltas, s.has_failed
    )
    SELECT coalesce(sum(f.deltas), 0), coalesce(array_agg(f.id) FILTER (WHERE f.has_failed), '{}')
      INTO moved, v_failed FROM folded AS f;

    FOR v_batch IN
        SELECT m.* FROM (
            SELECT b.id, b.tenant, b.callbacks,
                   (b.failed > 0 OR b.id = ANY (v_failed)) AND b.failure_job IS NULL AND b.callbacks ? 'failure' AS has_failed,
                   b.pending = 0 AND b.closed_at IS NOT NULL AND b.finished_at IS NULL AS is_over,
                   b.completed = b.total AND b.cancelled_at IS NULL AS is_well
              FROM batch AS b WHERE b.id = ANY (v_batches)) AS m
         WHERE m.has_failed OR m.is_over
    LOOP
        BEGIN
            IF v_batch.has_failed THEN
                UPDATE batch AS b SET failure_job = enqueue_callback_v1(v_batch.id, v_batch.tenant, 'failure', v_batch.callbacks, p_now)
                 WHERE b.id = v_batch.id;
            END IF;
            IF NOT v_batch.is_over THEN
                CONTINUE;
            END IF;
            PERFORM 1 FROM batch AS b WHERE b.id = v_batch.id FOR UPDATE SKIP LOCKED;
            -- Earlier additions have left their deltas, and later ones wait for the lock.
            IF FOUND AND NOT EXISTS (SELECT FROM batch_delta AS d WHERE d.batch = v_batch.id) THEN
                UPDATE batch AS b
                   SET finished_at = p_now,
                       success_job = coalesce(b.success_job, CASE WHEN v_batch.is_well THEN
                           enqueue_callback_v1(v_batch.id, v_batch.tenant, 'success', v_batch.callbacks, p_now) END),
                       end_job = coalesce(b.end_job, enqueue_callback_v1(v_batch.id, v_batch.tenant, 'end', v_batch.callbacks, p_now))
                 WHERE b.id = v_batch.id;
            ELSE
                INSERT INTO batch_delta (batch) VALUES (v_batch.id);
                moved := moved - 1;
                passed := passed + 1;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'A callback of batch % cannot be enqueued: %', v_batch.id, SQLERRM;
            INSERT INTO batch_delta (batch) VALUES (v_batch.id);
            moved := moved - 1;  -- so that the caller does not fold again at once
        END;
    END LOOP;
END
$$;
