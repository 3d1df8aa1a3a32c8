-- Count the end of parents for the jobs that wait for them. Jobs that wait for nothing any more become ready.
-- Returns the jobs that must not run, because one of their parents did not complete; the caller cancels them.
--
-- An edge is counted once, however often its parent ends; `pending` of a child is the number of uncounted edges.
-- Edges count only within the workflow of their parent, so that no edge can affect a job of another workflow.
-- Children are locked in the order of their ids before any of them is changed, since many parents end concurrently.
--
-- Whatever the statistics say, the plan is this one: rows by lists of keys from an index, then a hash join.
CREATE FUNCTION :"schema".release_dependents_v1(
    p_parents bigint[], p_states text[], p_workflows bigint[], p_now timestamptz
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_children bigint[];
    v_told     integer;
BEGIN
    v_children := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.id = ANY (ARRAY(SELECT d.child FROM dependency AS d WHERE d.parent = ANY (p_parents) AND NOT d.satisfied))
         ORDER BY j.id FOR NO KEY UPDATE);

    WITH ended AS (
        SELECT e.id, e.state = 'completed' AS well, e.workflow
          FROM unnest(p_parents, p_states, p_workflows) AS e (id, state, workflow)
    ), counted AS (
        UPDATE dependency AS d SET satisfied = true
          FROM ended AS e
         WHERE d.parent = ANY (p_parents) AND d.parent = e.id AND d.workflow = e.workflow AND NOT d.satisfied AND (e.well OR d.on_failure = 'continue')
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
         WHERE j.id = ANY (v_children) AND j.id = f.child AND j.workflow = f.workflow AND j.state = 'blocked' AND j.pending > 0
        RETURNING j.state, j.queue, j.lane, j.priority, j.ready_at, j.run_at
    )
    SELECT count(*) INTO v_told FROM (
        SELECT notify_ready_v1(f.queue, f.lane, f.priority, min(f.ready_at))
          FROM freed AS f WHERE f.state = 'ready' GROUP BY f.queue, f.lane, f.priority
        UNION ALL
        SELECT notify_due_v1(min(f.run_at)) FROM freed AS f WHERE f.state = 'scheduled' HAVING count(*) > 0) AS told;

    RETURN CASE WHEN p_states && ARRAY['failed', 'cancelled'] THEN dependents_to_cancel_v1(
        ARRAY(SELECT e.id FROM unnest(p_parents, p_states) WITH ORDINALITY AS e (id, state, ord)
               WHERE e.state <> 'completed' ORDER BY e.ord),
        ARRAY(SELECT e.workflow FROM unnest(p_states, p_workflows) WITH ORDINALITY AS e (state, workflow, ord)
               WHERE e.state <> 'completed' ORDER BY e.ord)) END;
END
$$;
