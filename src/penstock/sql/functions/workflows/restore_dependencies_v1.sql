-- Restore the edges of jobs that came back from history: they wait for their live parents and for no others, and jobs
-- that still wait, wait for them again.
--
-- Whatever was counted before, `pending` of a job stays the number of its uncounted edges. Live parents are locked,
-- because one that ends now would not see that a job waits for it again.
CREATE FUNCTION :"schema".restore_dependencies_v1(p_jobs bigint[], p_parents bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_live    bigint[];
    v_stalled bigint[];
    v_alive   bigint[];
BEGIN
    v_live := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.id = ANY (ARRAY(SELECT d.parent FROM dependency AS d WHERE d.child = ANY (p_jobs)
                                  UNION SELECT d.child FROM dependency AS d WHERE d.parent = ANY (p_parents)))
         ORDER BY j.id FOR NO KEY UPDATE);

    WITH again AS (
        UPDATE dependency AS d SET satisfied = false
          FROM job AS j
         WHERE d.parent = ANY (p_parents) AND d.satisfied AND d.child <> ALL (p_jobs)
           AND j.id = ANY (v_live) AND j.id = d.child AND j.workflow = d.workflow AND j.state = 'blocked' AND j.pending > 0
        RETURNING d.child
    )
    UPDATE job AS j SET pending = j.pending + a.count
      FROM (SELECT g.child, count(*)::integer AS count FROM again AS g GROUP BY g.child) AS a
     WHERE j.id = ANY (v_live) AND j.id = a.child;

    -- A stalled job stays stalled only if another of its parents has failed.
    v_stalled := ARRAY(SELECT j.id FROM job AS j
                        WHERE j.id = ANY (v_live) AND j.state = 'blocked' AND j.reason = 'parent_failed');
    v_alive := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(
                   SELECT d.parent FROM dependency AS d WHERE d.child = ANY (v_stalled))));
    UPDATE job AS j SET reason = NULL
     WHERE j.id = ANY (v_stalled) AND j.id <> ALL (ARRAY(
               SELECT d.child FROM dependency AS d
                WHERE d.child = ANY (v_stalled) AND NOT d.satisfied AND d.on_failure = 'wait' AND d.parent <> ALL (v_alive)));

    UPDATE dependency AS d SET satisfied = d.parent <> ALL (v_live)
      FROM job AS j
     WHERE d.child = ANY (p_jobs) AND d.satisfied = (d.parent = ANY (v_live))
       AND j.id = ANY (p_jobs) AND j.id = d.child AND j.workflow = d.workflow AND j.state IN ('ready', 'scheduled');
    UPDATE job AS j SET state = 'blocked', ready_at = NULL, pending = w.count
      FROM (SELECT d.child, count(*)::integer AS count FROM dependency AS d
             WHERE d.child = ANY (p_jobs) AND NOT d.satisfied GROUP BY d.child) AS w
     WHERE j.id = ANY (p_jobs) AND j.id = w.child AND j.state IN ('ready', 'scheduled');
END
$$;
