-- Return the jobs that must not run because parents have not completed, and lock them. Jobs that wait for a person to
-- decide are marked as stalled.
--
-- The whole chain of dependents is found in one call, since chains may be long and the depth of nested calls is limited.
-- Dependents are found by the index of parents, whatever the statistics say: OFFSET 0 and coalesce keep the planner from
-- walking through the whole workflow for each job.
CREATE FUNCTION :"schema".dependents_to_cancel_v1(p_parents bigint[], p_workflows bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_doomed bigint[];
BEGIN
    UPDATE job AS j SET reason = 'parent_failed'
     WHERE j.id = ANY (ARRAY(
               SELECT c.child FROM unnest(p_parents, p_workflows) AS e (id, workflow), LATERAL (
                      SELECT d.child, d.workflow FROM dependency AS d
                       WHERE d.parent = e.id AND NOT d.satisfied AND d.on_failure = 'wait' OFFSET 0) AS c
                WHERE c.workflow = e.workflow))
       AND coalesce(j.workflow, 0) = ANY (p_workflows) AND j.state = 'blocked';

    WITH RECURSIVE doomed AS (
        SELECT e.id, e.workflow FROM unnest(p_parents, p_workflows) AS e (id, workflow)
         UNION
        SELECT c.child, x.workflow FROM doomed AS x, LATERAL (
               SELECT d.child, d.workflow FROM dependency AS d
                WHERE d.parent = x.id AND NOT d.satisfied AND d.on_failure = 'cancel' OFFSET 0) AS c
         WHERE c.workflow = x.workflow
    )
    SELECT array_agg(l.id) INTO v_doomed
      FROM (SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT x.id FROM doomed AS x))
               AND coalesce(j.workflow, 0) = ANY (p_workflows) AND j.state = 'blocked'
             ORDER BY j.id FOR UPDATE) AS l;
    RETURN v_doomed;
END
$$;
