-- name: workflow_steps
-- The jobs of a workflow with those that each waits for or has waited for.
SELECT a.id, a.step, a.task, a.state, a.reason, a.attempt, a.pending, a.run_at, a.attempted_at, a.finished_at,
       a.error, e.parents
  FROM :"schema".workflow_jobs_v1(ARRAY[$1::bigint]) AS a
  LEFT JOIN (SELECT d.child, array_agg(d.parent ORDER BY d.parent) AS parents
               FROM :"schema".dependency AS d WHERE d.workflow = $1::bigint GROUP BY d.child) AS e ON e.child = a.id
 ORDER BY a.id;
