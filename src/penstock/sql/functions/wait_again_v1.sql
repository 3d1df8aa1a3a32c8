-- Jobs have come back from history: let them wait for parents of theirs that live, and let jobs that still wait
-- wait for them again.
CREATE FUNCTION :"schema".wait_again_v1(p_jobs bigint[], p_parents bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
AS $$
BEGIN
    PERFORM 1 FROM job AS j
      WHERE j.id = ANY (ARRAY(SELECT d.child FROM dependency AS d WHERE d.parent = ANY (p_parents)))
        AND j.state = 'blocked' ORDER BY j.id FOR NO KEY UPDATE;
    WITH again AS (
        UPDATE dependency AS d SET satisfied = false
          FROM job AS j
         WHERE d.parent = ANY (p_parents) AND d.satisfied AND j.id = d.child AND j.workflow = d.workflow
           AND j.state = 'blocked' AND j.pending > 0
        RETURNING d.child
    )
    UPDATE job AS j SET pending = j.pending + a.count
      FROM (SELECT g.child, count(*)::integer AS count FROM again AS g GROUP BY g.child) AS a
     WHERE j.id = a.child;
    -- Who waits for a person waits for nobody but these now.
    UPDATE job AS j SET reason = NULL
     WHERE j.id = ANY (ARRAY(SELECT d.child FROM dependency AS d WHERE d.parent = ANY (p_parents) AND NOT d.satisfied))
       AND j.state = 'blocked' AND j.reason = 'parent_failed';

    UPDATE job AS j SET state = 'blocked', ready_at = NULL, pending = w.count
      FROM (SELECT d.child, count(*)::integer AS count
              FROM dependency AS d JOIN job AS p ON p.id = d.parent AND p.workflow = d.workflow
             WHERE d.child = ANY (p_jobs) AND NOT d.satisfied GROUP BY d.child) AS w
     WHERE j.id = w.child AND j.state IN ('ready', 'scheduled');
END
$$;
