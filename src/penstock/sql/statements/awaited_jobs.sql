-- name: awaited_jobs
-- The jobs that a job waits for, first those whose end it has not counted; state is missing for one that is gone.
WITH awaited AS MATERIALIZED (
    SELECT d.parent, d.workflow, d.satisfied, d.on_failure FROM :"schema".dependency AS d WHERE d.child = $1::bigint
)
SELECT d.parent AS id, a.step, a.task, coalesce(a.state, 'missing') AS state, d.satisfied, d.on_failure
  FROM awaited AS d
  LEFT JOIN :"schema".find_jobs_v1(ARRAY(SELECT o.parent FROM awaited AS o)) AS a ON a.id = d.parent AND a.workflow = d.workflow
 ORDER BY d.satisfied, d.parent;
