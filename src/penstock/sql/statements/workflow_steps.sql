-- The jobs of a workflow with those that each waits for or has waited for.
SELECT a.id, a.step, a.task, a.state, a.reason, a.attempt, a.pending, a.run_at, a.attempted_at, a.finished_at,
       CASE WHEN a.state <> 'completed' AND a.errors -> -1 ->> 'kind' IS DISTINCT FROM 'rerun' THEN (a.errors -> -1 ->> 'type') || ': ' || (a.errors -> -1 ->> 'message') END AS error,
       e.parents
  FROM :"schema".job_all AS a
  LEFT JOIN (SELECT d.child, array_agg(d.parent ORDER BY d.parent) AS parents
               FROM :"schema".dependency AS d WHERE d.workflow = $1::bigint GROUP BY d.child) AS e ON e.child = a.id
 WHERE a.workflow = $1::bigint
 ORDER BY a.id;
