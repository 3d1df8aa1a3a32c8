-- Remove what nobody needs any more: expired leases with their grants and signals, expired keys, progress of ended jobs,
-- buckets without information (full and open for an hour, as a new one would be, or without a rate), and batches and
-- workflows whose jobs are long gone, including batches that nobody closed.
--
-- Rows are always found first and then removed by a list of keys: if the statistics are those of an emptied table, a
-- subquery would be run again for each of its rows.
CREATE FUNCTION :"schema".sweep_v1(p_limit integer DEFAULT 5000, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (leases integer, keys integer, progress integer, buckets integer, batches integer, workflows integer)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := coalesce(p_now, statement_timestamp());
    v_hour_ago timestamptz := v_now - interval '1 hour';
    v_longest  integer := greatest(30, (SELECT max(r.days) FROM retention AS r));
    -- Jobs that ended later may still be in history, and checking each would read all of it. Jobs that ended before this
    -- time are not, whatever their day.
    v_gone     timestamptz := v_now - make_interval(days => 1 + (
        SELECT max(expires_on_v1(d.ended, v_longest) - d.ended)
          FROM (SELECT date '2001-01-01' + g AS ended FROM generate_series(0, 365) AS g) AS d));
    v_ended    bigint[];
    v_keys     text[];
    v_rows     tid[];
BEGIN
    -- Leases are kept for a while after the rescue: errors get the worker's name from them, and people look at them.
    v_ended := ARRAY(SELECT l.id FROM lease AS l
                      WHERE l.expires_at < v_hour_ago
                        AND NOT EXISTS (SELECT FROM job AS j WHERE j.state = 'running' AND j.lease = l.id)
                      LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM lease AS l WHERE l.id = ANY (v_ended);
    leases := cardinality(v_ended);
    DELETE FROM signal AS s WHERE NOT EXISTS (SELECT FROM lease AS l WHERE l.id = s.lease);
    DELETE FROM "grant" AS g WHERE NOT EXISTS (SELECT FROM lease AS l WHERE l.id = g.lease);

    v_rows := ARRAY(SELECT u.ctid FROM unique_claim AS u
                     WHERE u.expires_at <= v_now ORDER BY u.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM unique_claim AS u WHERE u.ctid = ANY (v_rows);
    keys := cardinality(v_rows);

    v_ended := ARRAY(SELECT p.job FROM progress AS p
                      WHERE p.updated_at < v_gone AND NOT EXISTS (SELECT FROM job_all AS j WHERE j.id = p.job)
                      LIMIT p_limit FOR UPDATE OF p SKIP LOCKED);
    DELETE FROM progress AS p WHERE p.job = ANY (v_ended);
    progress := cardinality(v_ended);

    v_keys := ARRAY(SELECT b.key FROM bucket AS b CROSS JOIN LATERAL get_limit_v1(b.key) AS l
                     WHERE b.filled_at < v_hour_ago AND (b.closed_until < v_hour_ago) IS NOT FALSE
                       AND (b.level + l.rate * extract(epoch FROM v_hour_ago - b.filled_at) >= l.burst) IS NOT FALSE
                     LIMIT p_limit FOR UPDATE OF b SKIP LOCKED);
    DELETE FROM bucket AS b WHERE b.key = ANY (v_keys);
    buckets := cardinality(v_keys);

    v_ended := ARRAY(SELECT b.id FROM batch AS b
                      WHERE b.finished_at < v_gone ORDER BY b.finished_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM batch_delta AS d WHERE d.batch = ANY (v_ended);
    DELETE FROM batch AS b WHERE b.id = ANY (v_ended);
    batches := cardinality(v_ended);
    -- Batches that were never closed and to which nobody adds jobs any more. A recent addition has left a delta.
    v_ended := ARRAY(SELECT b.id FROM batch AS b
                      WHERE b.finished_at IS NULL AND b.closed_at IS NULL
                        AND b.created_at < v_gone AND (b.folded_at < v_gone) IS NOT FALSE
                        AND NOT EXISTS (SELECT FROM batch_delta AS d WHERE d.batch = b.id)
                        AND NOT EXISTS (SELECT FROM job AS j WHERE j.batch = b.id)
                      ORDER BY b.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM batch AS b
     WHERE b.id = ANY (v_ended) AND NOT EXISTS (SELECT FROM batch_delta AS d WHERE d.batch = b.id);
    batches := greatest(batches, cardinality(v_ended));

    v_ended := ARRAY(SELECT w.id FROM workflow AS w
                      WHERE w.created_at < v_gone
                        AND NOT EXISTS (SELECT FROM job AS j WHERE j.workflow = w.id)
                        AND NOT EXISTS (SELECT FROM job_history AS h WHERE h.workflow = w.id)
                      ORDER BY w.created_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM dependency AS d WHERE d.workflow = ANY (v_ended);
    DELETE FROM workflow AS w WHERE w.id = ANY (v_ended);
    workflows := cardinality(v_ended);
    RETURN NEXT;
END
$$;
