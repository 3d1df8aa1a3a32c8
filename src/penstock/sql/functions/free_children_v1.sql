-- Parents have ended: count that for the jobs that wait for them. Those that wait for nothing any more may run.
-- Answers with those that must not run any more, because one they wait for did not complete; the caller ends them.
--
-- An edge is counted once, however often its parent ends; the pending of a child is how many edges are not counted.
-- Edges count within the workflow of their parent, which is that of the child: nobody else's can be touched by one.
-- Children are locked in the order of their ids before any of them is changed: many parents end at once.
CREATE FUNCTION :"schema".free_children_v1(
    p_parents bigint[], p_states text[], p_workflows bigint[], p_now timestamptz
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
AS $$
DECLARE
    v_told   integer;
    v_doomed bigint[];
BEGIN
    PERFORM 1 FROM job AS j
      WHERE j.id = ANY (ARRAY(SELECT d.child FROM dependency AS d WHERE d.parent = ANY (p_parents) AND NOT d.satisfied))
      ORDER BY j.id FOR NO KEY UPDATE;

    WITH ended AS (
        SELECT e.id, e.state = 'completed' AS well, e.workflow
          FROM unnest(p_parents, p_states, p_workflows) AS e (id, state, workflow)
    ), counted AS (
        UPDATE dependency AS d SET satisfied = true
          FROM ended AS e
         WHERE d.parent = e.id AND d.workflow = e.workflow AND NOT d.satisfied AND (e.well OR d.on_failure = 'continue')
        RETURNING d.child, d.workflow
    ), fewer AS (
        SELECT c.child, c.workflow, count(*)::integer AS count FROM counted AS c GROUP BY c.child, c.workflow
    ), freed AS (
        UPDATE job AS j
           SET pending = greatest(0, j.pending - f.count),
               state = CASE WHEN j.pending > f.count THEN 'blocked' WHEN j.run_at > p_now THEN 'scheduled' ELSE 'ready' END,
               ready_at = CASE WHEN j.pending > f.count OR j.run_at > p_now THEN NULL ELSE clock_timestamp() END,
               reason = CASE WHEN j.pending > f.count THEN j.reason END
          FROM fewer AS f
         WHERE j.id = f.child AND j.workflow = f.workflow AND j.state = 'blocked' AND j.pending > 0
        RETURNING j.state, j.queue, j.lane, j.priority, j.ready_at, j.run_at
    )
    SELECT count(*) INTO v_told FROM (
        SELECT notify_ready_v1(f.queue, f.lane, f.priority, min(f.ready_at))
          FROM freed AS f WHERE f.state = 'ready' GROUP BY f.queue, f.lane, f.priority
        UNION ALL
        SELECT notify_due_v1(min(f.run_at)) FROM freed AS f WHERE f.state = 'scheduled' HAVING count(*) > 0) AS told;

    -- All that follow from each other at once: a chain may be long, and a call within a call is not.
    WITH RECURSIVE ended AS (
        SELECT e.id, e.workflow FROM unnest(p_parents, p_states, p_workflows) AS e (id, state, workflow)
         WHERE e.state <> 'completed'
    ), waiting AS (
        UPDATE job AS j SET reason = 'parent_failed'
         WHERE j.id = ANY (ARRAY(SELECT d.child FROM ended AS e JOIN dependency AS d ON d.parent = e.id
                                  WHERE d.workflow = e.workflow AND NOT d.satisfied AND d.on_failure = 'wait'))
           AND j.workflow = ANY (p_workflows) AND j.state = 'blocked'
    ), doomed AS (
        SELECT d.child, d.workflow FROM ended AS e JOIN dependency AS d ON d.parent = e.id
         WHERE d.workflow = e.workflow AND NOT d.satisfied AND d.on_failure = 'cancel'
        UNION
        SELECT d.child, d.workflow FROM doomed AS x JOIN dependency AS d ON d.parent = x.child
         WHERE d.workflow = x.workflow AND NOT d.satisfied AND d.on_failure = 'cancel'
    )
    SELECT array_agg(l.id) INTO v_doomed
      FROM (SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT x.child FROM doomed AS x))
               AND j.workflow = ANY (p_workflows) AND j.state = 'blocked'
             ORDER BY j.id FOR UPDATE) AS l;
    RETURN v_doomed;
END
$$;
